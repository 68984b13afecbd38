#include "base/dlpack.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace scalekeeper {
namespace {

absl::StatusOr<DType> DTypeOf(const DLDataType& type) {
  if (type.lanes == 1) {
    if (type.code == kDLFloat && type.bits == 32) return DType::kF32;
    if (type.code == kDLFloat && type.bits == 16) return DType::kF16;
    if (type.code == kDLBfloat && type.bits == 16) return DType::kBF16;
    if (type.code == kDLUInt && type.bits == 8) return DType::kUint8;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "dtype: got DLPack code ", type.code, " of ", type.bits, " bits and ",
      type.lanes, " lanes, want float32, float16, bfloat16 or uint8"));
}

absl::StatusOr<Device> DeviceOf(const DLDevice& device) {
  switch (device.device_type) {
    case kDLCPU:
    case kDLCUDAHost:
      return Device::Host();
    case kDLCUDA:
      return Device::Cuda(device.device_id);
    default:
      return absl::InvalidArgumentError(absl::StrCat(
          "device: got DLPack device type ",
          static_cast<int>(device.device_type), ", want host or CUDA memory"));
  }
}

DLDataType TypeOf(DType dtype) {
  const auto type = [](DLDataTypeCode code, int bits) {
    return DLDataType{static_cast<uint8_t>(code), static_cast<uint8_t>(bits),
                      1};
  };
  switch (dtype) {
    case DType::kF32:
      return type(kDLFloat, 32);
    case DType::kF16:
      return type(kDLFloat, 16);
    case DType::kBF16:
      return type(kDLBfloat, 16);
    case DType::kUint8:
      break;
  }
  return type(kDLUInt, 8);
}

}  // namespace

absl::StatusOr<TensorView> FromDlpack(const DLTensor& tensor) {
  TensorView view;
  SK_ASSIGN_OR_RETURN(view.dtype, DTypeOf(tensor.dtype));
  SK_ASSIGN_OR_RETURN(view.device, DeviceOf(tensor.device));
  if (tensor.ndim < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("ndim: got ", tensor.ndim, ", want >= 0"));
  }
  const size_t rank = static_cast<size_t>(tensor.ndim);
  const std::vector<int64_t> shape(tensor.shape, tensor.shape + rank);
  std::vector<int64_t> strides(rank, 1);
  if (tensor.strides != nullptr) {
    strides.assign(tensor.strides, tensor.strides + rank);
  } else {
    for (size_t d = rank; d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  }
  if (tensor.data != nullptr) {
    view.data = static_cast<char*>(tensor.data) + tensor.byte_offset;
  }
  view.cols = rank > 0 ? shape[rank - 1] : 1;
  view.col_stride = rank > 0 ? strides[rank - 1] : 1;
  view.rows = 1;
  view.row_stride = view.cols;
  // From the innermost leading dimension outwards: each one must step over
  // exactly what lies inside it.
  bool first = true;
  for (size_t d = rank > 0 ? rank - 1 : 0; d-- > 0;) {
    if (shape[d] == 1) continue;
    if (first) {
      view.row_stride = strides[d];
      first = false;
    } else if (strides[d] != view.row_stride * view.rows && shape[d] != 0 &&
               view.rows != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("strides[", d, "]: got ", strides[d], ", want ",
                       view.row_stride * view.rows,
                       ": leading dimensions that fold into rows"));
    }
    view.rows *= shape[d];
  }
  SK_RETURN_IF_ERROR(ValidateView(view, "tensor"));
  return view;
}

DlpackView::DlpackView(const TensorView& view)
    : shape_{view.rows, view.cols}, strides_{view.row_stride, view.col_stride} {
  tensor_.data = view.data;
  tensor_.device.device_type =
      view.device.kind == DeviceKind::kCuda ? kDLCUDA : kDLCPU;
  tensor_.device.device_id = view.device.index;
  tensor_.ndim = 2;
  tensor_.dtype = TypeOf(view.dtype);
  tensor_.shape = shape_;
  tensor_.strides = strides_;
}

}  // namespace scalekeeper
