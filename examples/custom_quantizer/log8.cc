#include "examples/custom_quantizer/log8.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "numerics/amax.h"
#include "numerics/convert.h"

namespace scalekeeper {
namespace {

constexpr int kLargest = 127;

float Element(const ConstTensorView& x, int64_t row, int64_t col) {
  return LoadFloat(x.dtype, x.data, row * x.row_stride + col * x.col_stride);
}

absl::StatusOr<std::unique_ptr<Quantizer>> MakeLog8(
    const CustomQuantizerArgs& args) {
  SK_RETURN_IF_ERROR(args.CheckKeys({"steps"}));
  SK_ASSIGN_OR_RETURN(const double steps, args.Number("steps", 8));
  if (!(steps >= 1 && steps <= 64)) {
    return absl::InvalidArgumentError(absl::StrCat(
        args.name, ": custom.parameters.steps: got ", steps, ", want 1..64"));
  }
  if (args.device != Device::Host()) {
    return absl::UnimplementedError(absl::StrCat(
        args.name, ": got device ", Name(args.device), ", want the host"));
  }
  return std::make_unique<Log8Quantizer>(args, static_cast<float>(steps));
}

}  // namespace

uint8_t EncodeLog8(float x, float amax, float steps) {
  const uint8_t sign = std::signbit(x) ? 0x80 : 0;
  const float magnitude = std::fabs(x);
  if (!(amax > 0) || magnitude == 0) return sign;
  if (std::isnan(x)) return static_cast<uint8_t>(sign | kLargest);
  const float k = kLargest + steps * std::log2(magnitude / amax);
  // Less than half of the smallest code's value is nearer to zero.
  if (k < 1 - steps) return sign;
  const float nearest = std::nearbyint(std::clamp(k, 1.0f, float{kLargest}));
  return static_cast<uint8_t>(sign | static_cast<int>(nearest));
}

float DecodeLog8(uint8_t code, float amax, float steps) {
  const int k = code & 0x7F;
  const float magnitude =
      k == 0 ? 0.0f
             : amax * std::exp2(static_cast<float>(k - kLargest) / steps);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

absl::Status Log8Quantizer::QuantizeImpl(const Call& call,
                                         QuantizedTensor* out) {
  if (call.noop_flag != nullptr && *call.noop_flag != 0) {
    return absl::OkStatus();
  }
  const ConstTensorView& x = call.x;
  float amax = 0;         // of what is finite
  uint32_t observed = 0;  // of everything
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t c = 0; c < x.cols; ++c) {
      const float magnitude = std::fabs(Element(x, r, c));
      observed = MaxBits(observed, AmaxBits(magnitude));
      if (std::isfinite(magnitude)) amax = std::max(amax, magnitude);
    }
  }
  if (call.observe) Observe(slot_, observed);
  for (const bool column_wise : {false, true}) {
    std::optional<QuantizedData>& use =
        column_wise ? out->column_wise : out->row_wise;
    if (!use) continue;
    // The word that other formats keep scale_inv in.
    *use->scale_inv.as<float>() = amax;
    uint8_t* codes = use->codes.as<uint8_t>();
    for (int64_t r = 0; r < x.rows; ++r) {
      for (int64_t c = 0; c < x.cols; ++c) {
        codes[column_wise ? c * x.rows + r : r * x.cols + c] =
            EncodeLog8(Element(x, r, c), amax, steps_);
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<QuantizedTensor> Log8Quantizer::MakeEmptyImpl(
    const EmptyCall& call) const {
  return Allocate(call, policy_);
}

absl::Status Log8Quantizer::DequantizeImpl(const QuantizedTensor& q,
                                           const TensorView& out,
                                           Stream) const {
  const QuantizedData& data = q.row_wise ? *q.row_wise : *q.column_wise;
  const float amax = *data.scale_inv.as<float>();
  const uint8_t* codes = data.codes.as<uint8_t>();
  for (int64_t r = 0; r < out.rows; ++r) {
    for (int64_t c = 0; c < out.cols; ++c) {
      const uint8_t code =
          codes[q.row_wise ? r * out.cols + c : c * out.rows + r];
      StoreFloat(out.dtype, DecodeLog8(code, amax, steps_), out.data,
                 r * out.row_stride + c * out.col_stride);
    }
  }
  return absl::OkStatus();
}

absl::Status RegisterLog8() {
  return RegisterQuantizer("examples.log8", MakeLog8);
}

}  // namespace scalekeeper
