// Matmul of plain operands, and views of any alignment, on a GPU against the
// host reference: small integers, so bytes are compared.
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "gemm/matmul.h"
#include "gtest/gtest.h"
#include "tests/gemm/matmul_cuda_testing.h"

namespace scalekeeper {
namespace {

TEST_F(MatmulCudaTest, PlainOperandsOfEveryDTypeAndLayout) {
  for (const DType dtype : kHighPrecisionDTypes) {
    for (const DType out_dtype : kOutDTypes) {
      for (const Shape& s : {Shape{32, 48, 64}, Shape{33, 10, 7}}) {
        for (const Layout a_layout : kLayouts) {
          for (const Layout b_layout : kLayouts) {
            SCOPED_TRACE(absl::StrCat(
                Name(dtype), " -> ", Name(out_dtype), " M ", s.m, " a ",
                static_cast<int>(a_layout), " b ", static_cast<int>(b_layout)));
            TestTensor a = SmallIntegers(dtype, s.m, s.k, 1, a_layout);
            TestTensor b = SmallIntegers(dtype, s.k, s.n, 2, b_layout);
            const TestTensor out = SmallIntegers(out_dtype, s.m, s.n, 3);
            DeviceTensor device_a = ValueOf(DeviceTensor::Of(kGpu, a));
            DeviceTensor device_b = ValueOf(DeviceTensor::Of(kGpu, b));
            MatmulOptions options;
            EXPECT_EQ(
                Multiply(kGpu, device_a.view(), device_b.view(), out, options)
                    .bytes(),
                Multiply(kHost, a.view(), b.view(), out, options).bytes());
            options.accumulate = true;
            const TestTensor bias = SmallIntegers(DType::kF32, 1, s.n, 4);
            EXPECT_EQ(Multiply(kGpu, device_a.view(), device_b.view(), out,
                               options, &bias)
                          .bytes(),
                      Multiply(kHost, a.view(), b.view(), out, options, &bias)
                          .bytes());
          }
        }
      }
    }
  }
}

TEST_F(MatmulCudaTest, PlainTransposeFlagsAndNativeEpilogues) {
  for (const DType dtype : kHighPrecisionDTypes) {
    for (const bool transa : {false, true}) {
      for (const bool transb : {false, true}) {
        TestTensor a =
            SmallIntegers(dtype, transa ? 64 : 32, transa ? 32 : 64, 1);
        TestTensor b =
            SmallIntegers(dtype, transb ? 48 : 64, transb ? 64 : 48, 2);
        DeviceTensor device_a = ValueOf(DeviceTensor::Of(kGpu, a));
        DeviceTensor device_b = ValueOf(DeviceTensor::Of(kGpu, b));
        const TestTensor out(dtype, 32, 48);
        const TestTensor bias = SmallIntegers(dtype, 1, 48, 4);
        MatmulOptions options;
        options.transa = transa;
        options.transb = transb;
        options.activation = Activation::kRelu;
        EXPECT_EQ(
            Multiply(kGpu, device_a.view(), device_b.view(), out, options,
                     &bias)
                .bytes(),
            Multiply(kHost, a.view(), b.view(), out, options, &bias).bytes());
      }
    }
  }
}

// H6
TEST_F(MatmulCudaTest, MisalignedPointersAndStridesAreCopied) {
  const Shape s = {24, 16, 60};  // 120-byte rows
  TestTensor a = SmallIntegers(DType::kBF16, s.m, s.k, 1);
  TestTensor b = SmallIntegers(DType::kBF16, s.k, s.n, 2);
  TestTensor c = SmallIntegers(DType::kBF16, s.m, s.n, 3);
  const TestTensor want = Multiply(kHost, a.view(), b.view(), c, {});
  for (const size_t offset : {size_t{0}, size_t{2}, size_t{8}}) {
    SCOPED_TRACE(absl::StrCat("offset ", offset));
    DeviceTensor device_a = ValueOf(DeviceTensor::Of(kGpu, a, offset));
    DeviceTensor device_b = ValueOf(DeviceTensor::Of(kGpu, b, offset));
    DeviceTensor device_c = ValueOf(DeviceTensor::Of(kGpu, c, offset));
    ASSERT_THAT(
        Matmul(device_a.view(), device_b.view(), device_c.view(), {}, stream_),
        IsOk());
    EXPECT_EQ(ValueOf(device_c.Download(stream_)).bytes(), want.bytes());
  }
  // Two rows, column-major.
  Product two_rows;
  two_rows.shape = {2, 64, 32};
  ExpectAsHost(two_rows, TestTensor(DType::kBF16, 2, 64, Layout::kTransposed));
  // A bias that starts in the middle of a 16-byte word.
  Product product;
  const TestTensor bias = SmallIntegers(DType::kBF16, 1, product.shape.n, 4);
  DeviceTensor device_bias = ValueOf(DeviceTensor::Of(kGpu, bias, 6));
  const ConstTensorView bias_view = device_bias.view();
  MatmulOptions options;
  options.bias = &bias_view;
  const TestTensor out(DType::kBF16, product.shape.m, product.shape.n);
  EXPECT_EQ(Multiply(kGpu, product, out, options).bytes(),
            Multiply(kHost, product, out, {}, &bias).bytes());
}

}  // namespace
}  // namespace scalekeeper
