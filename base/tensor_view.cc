#include "base/tensor_view.h"

#include "absl/strings/str_cat.h"

namespace scalekeeper {

absl::Status ValidateView(const ConstTensorView& view, absl::string_view what) {
  if (view.rows < 0 || view.cols < 0) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": got shape ",
                                                   view.rows, "x", view.cols,
                                                   ", want extents >= 0"));
  }
  if (view.empty()) return absl::OkStatus();
  if (view.data == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": got a null pointer for ", view.rows, "x",
                     view.cols, " elements"));
  }
  if (view.row_stride < 0 || view.col_stride < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": got strides ", view.row_stride, " and ",
                     view.col_stride, ", want >= 0 elements"));
  }
  if (reinterpret_cast<uintptr_t>(view.data) % SizeOf(view.dtype) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": got a pointer that is not aligned to ",
                     SizeOf(view.dtype), " bytes (", Name(view.dtype), ")"));
  }
  return absl::OkStatus();
}

absl::Status ValidateOutputView(const ConstTensorView& view,
                                absl::string_view what) {
  absl::Status status = ValidateView(view, what);
  if (!status.ok() || view.empty()) return status;
  // One of the two dimensions must lie wholly inside a step of the other.
  const int64_t rs = view.rows > 1 ? view.row_stride : INT64_MAX;
  const int64_t cs = view.cols > 1 ? view.col_stride : INT64_MAX;
  const bool rows_outside =
      cs > 0 && (view.cols - 1) < rs / cs + (rs % cs != 0);
  const bool cols_outside =
      rs > 0 && (view.rows - 1) < cs / rs + (cs % rs != 0);
  if (rs == 0 || cs == 0 || !(rows_outside || cols_outside)) {
    return absl::InvalidArgumentError(absl::StrCat(
        what, ": got an output whose elements overlap: ", Describe(view)));
  }
  return status;
}

std::string Describe(const ConstTensorView& view) {
  std::string text =
      absl::StrCat(Name(view.dtype), "[", view.rows, "x", view.cols);
  if (!view.contiguous()) {
    absl::StrAppend(&text, ", strides ", view.row_stride, " ", view.col_stride);
  }
  absl::StrAppend(&text, "] on ", Name(view.device));
  return text;
}

}  // namespace scalekeeper
