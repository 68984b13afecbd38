// The host's grouped kernels, which are the per-tensor ones expert by expert,
// and their switch on the device kind.
#include "quantizer/grouped_kernels.h"

#include <type_traits>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "numerics/convert.h"
#include "quantizer/grouped_kernels_cuda.h"
#include "quantizer/kernels.h"

namespace scalekeeper::kernels {
namespace {

// Rows of expert `e`.
template <typename View>
View RowsOf(const View& x, const GroupedSpec& spec, int e) {
  View rows = x;
  rows.rows = spec.offsets[e + 1] - spec.offsets[e];
  if (x.data == nullptr) return rows;
  using Byte = std::conditional_t<
      std::is_const_v<std::remove_pointer_t<decltype(x.data)>>, const char,
      char>;
  rows.data =
      static_cast<Byte*>(x.data) +
      spec.offsets[e] * x.row_stride * static_cast<int64_t>(SizeOf(x.dtype));
  return rows;
}

// Zero rows are fine, and so is no memory then.
template <typename T>
T* At(T* codes, const GroupedSpec& spec, int e, int64_t cols) {
  return codes == nullptr ? nullptr : codes + spec.offsets[e] * cols;
}

}  // namespace

absl::Status GroupedOffsets(const int64_t* counts, int experts, int64_t rows,
                            int64_t* offsets, Device device, Stream stream) {
  if (device.kind == DeviceKind::kCuda) {
    return cuda::GroupedOffsets(device.index, counts, experts, rows, offsets,
                                stream);
  }
  int64_t left = rows;
  for (int e = 0; e < experts; ++e) {
    if (counts[e] < 0 || counts[e] > left) {
      return absl::InvalidArgumentError(absl::StrCat(
          "counts[", e, "]: got ", counts[e], ", want 0..", left,
          ": what is left of ", rows, " rows after the experts before"));
    }
    left -= counts[e];
  }
  offsets[0] = 0;
  for (int e = 0; e < experts; ++e) offsets[e + 1] = offsets[e] + counts[e];
  return absl::OkStatus();
}

absl::Status GroupedAmax(const ConstTensorView& x, const GroupedSpec& spec,
                         Stream stream) {
  if (x.device.kind == DeviceKind::kCuda) {
    return cuda::GroupedAmax(x, spec, stream);
  }
  for (int e = 0; e < spec.experts; ++e) {
    if (!NeedsTensorAmax(ScaleOfExpert(spec, e))) continue;
    SK_RETURN_IF_ERROR(Amax(RowsOf(x, spec, e), spec.amaxes + e, {}, stream));
  }
  return absl::OkStatus();
}

absl::Status GroupedCast(const ConstTensorView& x, const GroupedSpec& spec,
                         const GroupedOutput& out, Stream stream) {
  if (x.device.kind == DeviceKind::kCuda) {
    return cuda::GroupedCast(x, spec, out, stream);
  }
  for (int e = 0; e < spec.experts; ++e) {
    CastScale scale = ScaleOfExpert(spec, e);
    scale.row_wise_scale_inv = out.scale_inv + e * kGroupedScaleStride;
    CastOutput codes;
    codes.row_wise = At(out.row_wise, spec, e, x.cols);
    codes.column_wise = At(out.column_wise, spec, e, x.cols);
    if (out.observe) codes.amax = spec.slots[e].amax;
    SK_RETURN_IF_ERROR(
        Cast(RowsOf(x, spec, e), scale, spec.format, codes, {}, stream));
  }
  return absl::OkStatus();
}

absl::Status GroupedDecode(const GroupedSpec& spec, const uint8_t* row_wise,
                           const uint8_t* column_wise, const float* scale_inv,
                           const TensorView& out, Stream stream) {
  if (out.device.kind == DeviceKind::kCuda) {
    return cuda::GroupedDecode(spec, row_wise, column_wise, scale_inv, out,
                               stream);
  }
  for (int e = 0; e < spec.experts; ++e) {
    const TensorView rows = RowsOf(out, spec, e);
    using View = BasicTensorView<const void*>;
    const View codes =
        row_wise != nullptr
            ? View::Contiguous(At(row_wise, spec, e, out.cols), DType::kUint8,
                               rows.rows, rows.cols)
            : View::Contiguous(At(column_wise, spec, e, out.cols),
                               DType::kUint8, rows.cols, rows.rows)
                  .Transposed();
    SK_RETURN_IF_ERROR(Decode(ConstTensorView(codes), spec.format,
                              scale_inv + e * kGroupedScaleStride, rows,
                              stream));
  }
  for (int64_t r = spec.offsets[spec.experts]; r < out.rows; ++r) {
    for (int64_t c = 0; c < out.cols; ++c) {
      StoreFloat(out.dtype, 0.0f, out.data,
                 r * out.row_stride + c * out.col_stride);
    }
  }
  return absl::OkStatus();
}

}  // namespace scalekeeper::kernels
