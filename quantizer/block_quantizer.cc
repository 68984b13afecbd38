#include "quantizer/block_quantizer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/device_memory.h"
#include "base/dtype.h"
#include "base/status_macros.h"
#include "numerics/hadamard.h"
#include "numerics/random.h"
#include "quantizer/dequantize.h"
#include "quantizer/quantize_workspace.h"

namespace scalekeeper {
namespace {

kernels::BlockCastSpec SpecOf(const std::string& name, const Policy& policy,
                              const int64_t* step) {
  kernels::BlockCastSpec spec;
  spec.format = policy.format;
  spec.current.format_max = FormatMax(policy.format);
  if (policy.scaling == Scaling::kRowwise) {
    spec.current.power_2_scale = policy.current.power_2_scale;
    spec.current.amax_epsilon = policy.current.amax_epsilon;
  } else if (policy.scaling == Scaling::kBlock) {
    spec.current.power_2_scale = policy.block.power_2_scale;
    spec.current.amax_epsilon = policy.block.amax_epsilon;
  } else if (policy.scaling == Scaling::kMxfp8) {
    spec.e8m0_floor = policy.mxfp8.scale_rounding == ScaleRounding::kOcpFloor;
  } else {
    spec.four_over_six = policy.nvfp4.four_over_six;
    spec.stochastic_rounding = policy.nvfp4.stochastic_rounding;
    spec.random_key =
        MakeRandomKey(policy.nvfp4.seed, name.data(), name.size());
    spec.step = step;
  }
  return spec;
}

// Signal and error of what a tensor lost, summed on the host from float32
// copies of x and of what Dequantize gives.
absl::Status AddErrors(const Buffer& x, const Buffer& back, int64_t count,
                       Device device, Stream stream, Statistics* statistics) {
  constexpr int64_t kChunk = int64_t{1} << 20;
  std::vector<float> values(static_cast<size_t>(std::min(count, kChunk)));
  std::vector<float> decoded(values.size());
  for (int64_t at = 0; at < count; at += kChunk) {
    const size_t n = static_cast<size_t>(std::min(kChunk, count - at));
    const size_t bytes = n * sizeof(float);
    SK_RETURN_IF_ERROR(
        CopyToHost(device, values.data(), x.as<float>() + at, bytes, stream));
    SK_RETURN_IF_ERROR(CopyToHost(device, decoded.data(), back.as<float>() + at,
                                  bytes, stream));
    for (size_t i = 0; i < n; ++i) {
      if (IsNonFiniteAmax(AmaxBits(values[i]))) continue;
      const double v = values[i];
      const double error = v - static_cast<double>(decoded[i]);
      statistics->signal += v * v;
      statistics->error += error * error;
    }
  }
  return absl::OkStatus();
}

}  // namespace

BlockQuantizer::BlockQuantizer(std::string name, const Policy& policy,
                               SlotView slot, const int64_t* step,
                               AmaxGroup* group, Device device, Usages usages,
                               Allocator* allocator)
    : Quantizer(std::move(name), device, usages, allocator),
      policy_(policy),
      slot_(slot),
      group_(group),
      spec_(SpecOf(this->name(), policy, step)) {}

bool BlockQuantizer::MeasuresFirst() const {
  return policy_.scaling == Scaling::kNvfp4 ||
         policy_.scaling == Scaling::kRowwise;
}

absl::Status BlockQuantizer::MeasureAmaxes(const Call& call,
                                           QuantizedTensor* out,
                                           uint32_t* words, bool shared) const {
  const kernels::RunIf run = {call.noop_flag};
  const bool columns = out->column_wise.has_value();
  if (policy_.scaling == Scaling::kRowwise) {
    uint32_t* const own = QuantizeWorkspace(out).amaxes;
    return kernels::LineAmaxes(
        call.x, out->row_wise || shared ? words : nullptr,
        columns ? own + out->rows : nullptr, run, call.stream);
  }
  const bool transforms = policy_.nvfp4.random_hadamard;
  const bool transformable = call.x.rows % kHadamardSize == 0;
  kernels::TensorAmaxWords amaxes;
  if (out->row_wise || shared) amaxes.row_wise = words;
  if (columns || (shared && (!transforms || transformable))) {
    amaxes.column_wise = words + 1;
  }
  if (columns && call.observe) amaxes.non_finite = slot_.amax;
  return kernels::TensorAmaxes(call.x, transforms, amaxes, run, call.stream);
}

absl::Status BlockQuantizer::QuantizeTensor(const Call& call,
                                            QuantizedTensor* out) const {
  // Rows that only this rank measures are measured as they are cast.
  const bool cast_measures = policy_.scaling == Scaling::kRowwise &&
                             call.shared_amaxes == nullptr && !out->column_wise;
  uint32_t* const own = QuantizeWorkspace(out).amaxes;
  const uint32_t* words = call.shared_amaxes;
  if (words == nullptr && MeasuresFirst()) {
    if (!cast_measures) {
      SK_RETURN_IF_ERROR(MeasureAmaxes(call, out, own, /*shared=*/false));
    }
    words = own;
  }
  kernels::BlockCastSpec spec = spec_;
  if (policy_.scaling == Scaling::kBlock) {
    spec.current.overflow_scale = MaxFinite(call.x.dtype);
  }
  const auto use_of = [&](QuantizedData& data, bool column_wise) {
    kernels::BlockUse use;
    use.codes = data.codes.as<uint8_t>();
    use.scales = data.scales;
    use.hadamard = data.hadamard;
    if (policy_.scaling == Scaling::kNvfp4) {
      use.tensor_amax = words + (column_wise ? 1 : 0);
    } else if (policy_.scaling == Scaling::kRowwise) {
      use.line_amax = column_wise ? own + out->rows : words;
    }
    return use;
  };
  kernels::BlockCastOutput codes;
  if (out->row_wise) codes.row_wise = use_of(*out->row_wise, false);
  if (out->column_wise) codes.column_wise = use_of(*out->column_wise, true);
  if (call.observe) codes.amax = slot_.amax;
  codes.counters = call.counters;
  if (cast_measures) {
    return kernels::RowwiseCast(call.x, spec, codes, own, {call.noop_flag},
                                call.stream);
  }
  return kernels::BlockCast(call.x, spec, codes, {call.noop_flag}, call.stream);
}

absl::Status BlockQuantizer::QuantizeImpl(const Call& call,
                                          QuantizedTensor* out) {
  return QuantizeTensor(call, out);
}

absl::Status BlockQuantizer::CheckOutImpl(const QuantizedTensor& out) const {
  return CheckMadeUnder(policy_, out);
}

absl::StatusOr<QuantizedTensor> BlockQuantizer::MakeEmptyImpl(
    const EmptyCall& call) const {
  return Allocate(call, policy_);
}

absl::Status BlockQuantizer::CalibrateImpl(const Call& call) {
  if (!call.observe) return absl::OkStatus();
  return kernels::Amax(call.x, slot_.amax, {call.noop_flag}, call.stream);
}

SharedAmaxes BlockQuantizer::SharedAmaxesOf(const QuantizedTensor& out) const {
  if (group_ == nullptr || !MeasuresFirst()) return {};
  if (policy_.scaling == Scaling::kNvfp4) return {group_, 2};
  // One word more than rows: a rank that has none joins, and its different
  // length is seen.
  return {group_, static_cast<size_t>(out.rows) + 1};
}

absl::Status BlockQuantizer::MeasureSharedImpl(const Call& call,
                                               QuantizedTensor* out,
                                               uint32_t* words) {
  return MeasureAmaxes(call, out, words, /*shared=*/true);
}

absl::StatusOr<Statistics> BlockQuantizer::MeasureImpl(const ConstTensorView& x,
                                                       Stream stream) const {
  SK_ASSIGN_OR_RETURN(
      QuantizedTensor q,
      MakeEmptyImpl({x.rows, x.cols, Usages{/*row_wise=*/true}, stream}));
  // Words for what the cast and a pass over x count.
  struct Words {
    kernels::CastCounters counters;
    kernels::AmaxScratch scratch;
  };
  SK_ASSIGN_OR_RETURN(Buffer words,
                      Buffer::Allocate(allocator(), sizeof(Words)));
  SK_RETURN_IF_ERROR(
      FillBytes(device(), words.data(), 0, sizeof(Words), stream));
  Call call;
  call.x = x;
  call.observe = false;
  call.counters = &words.as<Words>()->counters;
  call.stream = stream;
  SK_RETURN_IF_ERROR(QuantizeTensor(call, &q));
  SK_RETURN_IF_ERROR(kernels::TensorAmax(x, &words.as<Words>()->scratch,
                                         /*run=*/{}, stream));
  const size_t bytes = static_cast<size_t>(x.size()) * sizeof(float);
  SK_ASSIGN_OR_RETURN(Buffer values, Buffer::Allocate(allocator(), bytes));
  SK_ASSIGN_OR_RETURN(Buffer back, Buffer::Allocate(allocator(), bytes));
  const auto matrix = [&](Buffer& buffer) {
    return TensorView::Contiguous(buffer.data(), DType::kF32, x.rows, x.cols,
                                  device());
  };
  Statistics statistics;
  statistics.count = x.size();
  if (!x.empty()) {
    SK_RETURN_IF_ERROR(kernels::Convert(x, matrix(values), /*run=*/{}, stream));
    SK_RETURN_IF_ERROR(DequantizeTensor(q, matrix(back), stream));
    SK_RETURN_IF_ERROR(AddErrors(values, back, statistics.count, device(),
                                 stream, &statistics));
  }
  Words found;
  SK_RETURN_IF_ERROR(
      CopyToHost(device(), &found, words.data(), sizeof(found), stream));
  statistics.nonzero = static_cast<int64_t>(found.counters.nonzero);
  statistics.underflow = static_cast<int64_t>(found.counters.underflow);
  statistics.saturation = static_cast<int64_t>(found.counters.saturation);
  statistics.non_finite = static_cast<int64_t>(found.counters.non_finite);
  statistics.amax_bits = found.scratch.amax;
  if (policy_.scaling == Scaling::kNvfp4) {
    statistics.scale =
        Nvfp4TensorScale(statistics.amax_bits, policy_.nvfp4.four_over_six);
    statistics.scale_inv = ScaleInverse(statistics.scale);
  }
  return statistics;
}

}  // namespace scalekeeper
