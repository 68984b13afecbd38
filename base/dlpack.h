// TensorView to and from DLPack's DLTensor, without copying.
//
// From: leading dimensions are folded into rows, so they must be foldable
// (InvalidArgument otherwise); one dimension is a row, none is 1 x 1. float32,
// bfloat16, float16 and uint8; host, pinned host and CUDA memory. To: two
// dimensions; the DLTensor points into the DlpackView, which must stay where it
// is. Nobody owns the memory.
//
// Example:
//   SK_ASSIGN_OR_RETURN(TensorView x, FromDlpack(managed->dl_tensor));
//   DlpackView y(view);
//   framework_call(y.tensor());
#ifndef SCALEKEEPER_BASE_DLPACK_H_
#define SCALEKEEPER_BASE_DLPACK_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "base/tensor_view.h"
#include "dlpack/dlpack.h"

namespace scalekeeper {

absl::StatusOr<TensorView> FromDlpack(const DLTensor& tensor);

class DlpackView {
 public:
  explicit DlpackView(const TensorView& view);
  DlpackView(const DlpackView&) = delete;
  DlpackView& operator=(const DlpackView&) = delete;

  const DLTensor& tensor() const { return tensor_; }

 private:
  int64_t shape_[2];
  int64_t strides_[2];
  DLTensor tensor_ = {};
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_BASE_DLPACK_H_
