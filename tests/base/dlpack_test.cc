#include "base/dlpack.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::HasSubstr;

DLTensor TensorOf(void* data, std::vector<int64_t>& shape,
                  std::vector<int64_t>* strides) {
  DLTensor tensor = {};
  tensor.data = data;
  tensor.device = {kDLCPU, 0};
  tensor.ndim = static_cast<int>(shape.size());
  tensor.dtype = {kDLFloat, 32, 1};
  tensor.shape = shape.data();
  tensor.strides = strides == nullptr ? nullptr : strides->data();
  return tensor;
}

TEST(DlpackTest, LeadingDimensionsFoldIntoRows) {
  std::vector<float> data(24);
  std::vector<int64_t> shape = {2, 3, 4};
  const auto view = FromDlpack(TensorOf(data.data(), shape, nullptr));
  ASSERT_THAT(view, IsOk());
  EXPECT_EQ(view->rows, 6);
  EXPECT_EQ(view->cols, 4);
  EXPECT_EQ(view->row_stride, 4);
  EXPECT_TRUE(view->contiguous());
  EXPECT_EQ(view->dtype, DType::kF32);
}

TEST(DlpackTest, StridesAndOffsetAreKept) {
  std::vector<float> data(64);
  std::vector<int64_t> shape = {3, 2};
  std::vector<int64_t> strides = {1, 8};
  DLTensor tensor = TensorOf(data.data(), shape, &strides);
  tensor.byte_offset = 8;
  const auto view = FromDlpack(tensor);
  ASSERT_THAT(view, IsOk());
  EXPECT_EQ(view->data, data.data() + 2);
  EXPECT_EQ(view->row_stride, 1);
  EXPECT_EQ(view->col_stride, 8);
}

TEST(DlpackTest, OneAndNoDimension) {
  float value = 0;
  std::vector<int64_t> shape = {5};
  std::vector<float> data(5);
  auto view = FromDlpack(TensorOf(data.data(), shape, nullptr));
  ASSERT_THAT(view, IsOk());
  EXPECT_EQ(view->rows, 1);
  EXPECT_EQ(view->cols, 5);
  std::vector<int64_t> none;
  view = FromDlpack(TensorOf(&value, none, nullptr));
  ASSERT_THAT(view, IsOk());
  EXPECT_EQ(view->size(), 1);
}

TEST(DlpackTest, WhatIsNoMatrixIsRefused) {
  std::vector<float> data(64);
  std::vector<int64_t> shape = {2, 3, 4};
  std::vector<int64_t> strides = {20, 4, 1};  // 12 would fold
  EXPECT_THAT(FromDlpack(TensorOf(data.data(), shape, &strides)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("strides[0]: got 20, want 12")));
  DLTensor tensor = TensorOf(data.data(), shape, nullptr);
  tensor.dtype = {kDLFloat, 64, 1};
  EXPECT_THAT(FromDlpack(tensor), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr("64 bits")));
  tensor = TensorOf(data.data(), shape, nullptr);
  tensor.device.device_type = kDLVulkan;
  EXPECT_THAT(FromDlpack(tensor), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr("device type 7")));
}

TEST(DlpackTest, ThereAndBackIsTheSameView) {
  std::vector<uint16_t> data(64);
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    TensorView view = TensorView::Contiguous(data.data(), dtype, 4, 8);
    view = view.Transposed();
    view.device = Device::Cuda(1);
    const DlpackView out(view);
    const auto back = FromDlpack(out.tensor());
    ASSERT_THAT(back, IsOk());
    EXPECT_EQ(back->data, view.data);
    EXPECT_EQ(back->dtype, dtype);
    EXPECT_EQ(back->rows, 8);
    EXPECT_EQ(back->cols, 4);
    EXPECT_EQ(back->row_stride, view.row_stride);
    EXPECT_EQ(back->col_stride, view.col_stride);
    EXPECT_EQ(back->device, view.device);
  }
}

}  // namespace
}  // namespace scalekeeper
