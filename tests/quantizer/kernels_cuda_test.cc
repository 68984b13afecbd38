// Parity: the CUDA kernels give the bits of the host kernels, for every dtype,
// format, layout and odd size, edge values in every lane.
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "cuda_runtime_api.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "numerics/amax.h"
#include "quantizer/kernels.h"
#include "tests/testing/device_bytes.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/test_tensor.h"

namespace scalekeeper {
namespace {

using kernels::AmaxScratch;
using kernels::CastCounters;
using kernels::CastOutput;
using kernels::CastScale;

const Device kGpu = Device::Cuda(0);
constexpr Format kFp8[] = {Format::kE4M3, Format::kE5M2};

// Ordinary values with edge values strewn over all lanes.
float MixedValue(std::mt19937& generator) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  constexpr float kEdges[] = {0.0f,     -0.0f,   kInf,     -kInf,    kNaN,
                              -kNaN,    448.0f,  464.0f,   -464.01f, 57344.0f,
                              61440.0f, 0x1p-9f, 0x1p-10f, 0x1p-17f, -1e-30f,
                              1e-40f,   3.4e38f, 0x1.8p-9f};
  if (generator() % 4 == 0) return kEdges[generator() % std::size(kEdges)];
  return std::ldexp(std::normal_distribution<float>(0, 1)(generator),
                    static_cast<int>(generator() % 24) - 16);
}

TestTensor Mixed(DType dtype, int64_t rows, int64_t cols, uint32_t seed,
                 Layout layout) {
  std::mt19937 generator(seed);
  return TestTensor::Of(
      dtype, rows, cols,
      [&](int64_t, int64_t) { return MixedValue(generator); }, layout);
}

// All that a cast writes.
struct CastResult {
  std::vector<uint8_t> row_wise, column_wise;
  uint32_t amax = 0;
  CastCounters counters;
  float row_wise_scale_inv = -1, column_wise_scale_inv = -1;
};

struct CastCase {
  bool row_wise = true;
  bool column_wise = true;
  bool amax = true;
  bool counters = false;
};

CastResult CastOn(Device device, const TensorView& x, CastScale scale,
                  float factor, Format format, const CastCase& what) {
  const size_t size = static_cast<size_t>(x.size());
  DeviceBytes row(device, std::vector<uint8_t>(size, 0xAA));
  DeviceBytes column(device, std::vector<uint8_t>(size, 0xAA));
  DeviceBytes amax = DeviceBytes::Of<uint32_t>(device, 0);
  DeviceBytes counters = DeviceBytes::Of(device, CastCounters());
  DeviceBytes inverse = DeviceBytes::Of<float[2]>(device, {-1, -1});
  DeviceBytes given = DeviceBytes::Of(device, factor);
  scale.scale = given.as<float>();
  scale.row_wise_scale_inv = inverse.as<float>();
  scale.column_wise_scale_inv = inverse.as<float>() + 1;
  CastOutput out;
  if (what.row_wise) out.row_wise = row.as<uint8_t>();
  if (what.column_wise) out.column_wise = column.as<uint8_t>();
  if (what.amax) out.amax = amax.as<uint32_t>();
  if (what.counters) out.counters = counters.as<CastCounters>();
  EXPECT_THAT(kernels::Cast(x, scale, format, out, {}, Stream()), IsOk());
  CastResult result;
  result.row_wise = row.Download();
  result.column_wise = column.Download();
  result.amax = amax.Get<uint32_t>();
  result.counters = counters.Get<CastCounters>();
  std::memcpy(&result.row_wise_scale_inv, inverse.Download().data(), 4);
  std::memcpy(&result.column_wise_scale_inv, inverse.Download().data() + 4, 4);
  return result;
}

void ExpectSameCast(TestTensor& x, float factor, Format format,
                    const CastCase& what) {
  DeviceBytes device_x(kGpu, x.bytes());
  const CastResult host =
      CastOn(Device::Host(), x.view(), {}, factor, format, what);
  const CastResult cuda =
      CastOn(kGpu, OnDevice(x.view(), kGpu, device_x.as<void>()), {}, factor,
             format, what);
  EXPECT_EQ(cuda.row_wise, host.row_wise);
  EXPECT_EQ(cuda.column_wise, host.column_wise);
  EXPECT_EQ(cuda.amax, host.amax);
  EXPECT_EQ(cuda.counters.nonzero, host.counters.nonzero);
  EXPECT_EQ(cuda.counters.underflow, host.counters.underflow);
  EXPECT_EQ(cuda.counters.saturation, host.counters.saturation);
  EXPECT_EQ(cuda.counters.non_finite, host.counters.non_finite);
  EXPECT_EQ(AmaxBits(cuda.row_wise_scale_inv),
            AmaxBits(host.row_wise_scale_inv));
  EXPECT_EQ(AmaxBits(cuda.column_wise_scale_inv),
            AmaxBits(host.column_wise_scale_inv));
}

struct Shape {
  int64_t rows, cols;
};

class CastParityTest : public ::testing::TestWithParam<Shape> {};

TEST_P(CastParityTest, SameBitsAsTheHost) {
  const auto [rows, cols] = GetParam();
  uint32_t seed = 7;
  for (const DType dtype : kHighPrecisionDTypes) {
    for (const Layout layout : kLayouts) {
      TestTensor x = Mixed(dtype, rows, cols, ++seed, layout);
      for (const Format format : kFp8) {
        SCOPED_TRACE(Describe(x.view()));
        ExpectSameCast(x, 149.33333f, format, {true, true, true, true});
        ExpectSameCast(x, 1.0f, format, {true, false, true, false});
        ExpectSameCast(x, 0x1p-20f, format, {false, true, true, true});
        ExpectSameCast(x, 3e38f, format, {true, false, false, true});
        if (HasFailure()) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, CastParityTest,
    ::testing::Values(Shape{1, 1}, Shape{1, 15}, Shape{17, 1}, Shape{15, 17},
                      Shape{1, 16}, Shape{16, 16}, Shape{16, 64},
                      Shape{127, 129}, Shape{128, 128}, Shape{144, 272},
                      Shape{129, 16}, Shape{256, 384}, Shape{1000, 300},
                      Shape{0, 256}, Shape{256, 0}),
    [](const auto& info) {
      return std::to_string(info.param.rows) + "x" +
             std::to_string(info.param.cols);
    });

// A view of `tensor` on the GPU; keeps the memory.
struct Uploaded {
  explicit Uploaded(TestTensor& tensor)
      : bytes(kGpu, tensor.bytes()),
        view(OnDevice(tensor.view(), kGpu, bytes.as<void>())) {}
  DeviceBytes bytes;
  TensorView view;
};

TEST(KernelsCudaTest, EdgeValuesInEveryLane) {
  for (const DType dtype : kHighPrecisionDTypes) {
    for (const float edge : {464.0f, std::nanf(""), 0x1p-10f, -0.0f}) {
      for (int64_t lane = 0; lane < 64; ++lane) {
        TestTensor x = TestTensor::Of(dtype, 16, 64, [&](int64_t r, int64_t c) {
          return r == 3 && c == lane ? edge : 1.0f;
        });
        ExpectSameCast(x, 1.0f, Format::kE4M3, {true, true, true, true});
        ExpectSameCast(x, 1.0f, Format::kE4M3, {true, false, true, true});
        if (HasFailure()) return;
      }
    }
  }
}

TEST(KernelsCudaTest, ScaleSourcesGiveTheHostsScale) {
  TestTensor x = TestTensor::Of(DType::kBF16, 32, 48, [](int64_t r, int64_t c) {
    return static_cast<float>(r - c) * 0.37f;
  });
  Uploaded gpu(x);
  for (const uint32_t amax_bits : {0u, 1u, 0x3F800000u, 0x7F7FFFFFu,
                                   0x7F800000u, 0x7FC00000u, 0x03E00001u}) {
    for (const uint32_t measure : {0u, 1u}) {
      for (const auto kind :
           {CastScale::Kind::kDelayed, CastScale::Kind::kCurrent}) {
        for (const bool power_2_scale : {false, true}) {
          const auto on = [&](Device device, const TensorView& view) {
            DeviceBytes amax = DeviceBytes::Of(device, amax_bits);
            DeviceBytes flag = DeviceBytes::Of(device, measure);
            CastScale scale;
            scale.kind = kind;
            scale.measure = flag.as<uint32_t>();
            scale.tensor_amax = amax.as<uint32_t>();
            scale.margin = 3;
            scale.current.power_2_scale = power_2_scale;
            scale.current.amax_epsilon = 1e-30f;
            return CastOn(device, view, scale, 5.0f, Format::kE4M3, {});
          };
          const CastResult host = on(Device::Host(), x.view());
          const CastResult cuda = on(kGpu, gpu.view);
          EXPECT_EQ(cuda.row_wise, host.row_wise);
          EXPECT_EQ(AmaxBits(cuda.row_wise_scale_inv),
                    AmaxBits(host.row_wise_scale_inv));
        }
      }
    }
  }
}

TEST(KernelsCudaTest, NoopFlagLeavesEverything) {
  TestTensor x = Mixed(DType::kBF16, 64, 64, 3, Layout::kContiguous);
  Uploaded gpu(x);
  DeviceBytes one = DeviceBytes::Of<uint32_t>(kGpu, 1);
  DeviceBytes zero = DeviceBytes::Of<uint32_t>(kGpu, 0);
  DeviceBytes scale = DeviceBytes::Of<float>(kGpu, 2.0f);
  DeviceBytes inverse = DeviceBytes::Of<float>(kGpu, 9.0f);
  DeviceBytes amax = DeviceBytes::Of<uint32_t>(kGpu, 0);
  DeviceBytes codes(kGpu, std::vector<uint8_t>(64 * 64, 0xAA));
  CastScale source = kernels::GivenScale(scale.as<float>());
  source.row_wise_scale_inv = inverse.as<float>();
  CastOutput out;
  out.row_wise = codes.as<uint8_t>();
  out.amax = amax.as<uint32_t>();
  ASSERT_THAT(kernels::Cast(gpu.view, source, Format::kE4M3, out,
                            {one.as<uint32_t>()}, Stream()),
              IsOk());
  EXPECT_EQ(codes.Download(), std::vector<uint8_t>(64 * 64, 0xAA));
  EXPECT_EQ(inverse.Get<float>(), 9.0f);
  EXPECT_EQ(amax.Get<uint32_t>(), 0u);
  ASSERT_THAT(kernels::Cast(gpu.view, source, Format::kE4M3, out,
                            {zero.as<uint32_t>()}, Stream()),
              IsOk());
  EXPECT_EQ(inverse.Get<float>(), 0.5f);
  EXPECT_NE(amax.Get<uint32_t>(), 0u);
}

TEST(KernelsCudaTest, TensorAmaxIsSetNotRaised) {
  DeviceBytes scratch = DeviceBytes::Of(kGpu, AmaxScratch());
  for (int repeat = 0; repeat < 3; ++repeat) {
    for (const Layout layout : kLayouts) {
      for (const DType dtype : kHighPrecisionDTypes) {
        for (const float largest : {8192.0f, 0.5f, 0.0f}) {
          TestTensor x = TestTensor::Of(
              dtype, 300, 1000,
              [&](int64_t r, int64_t c) {
                return r == 299 && c == 999 ? -largest : largest / 2;
              },
              layout);
          Uploaded gpu(x);
          ASSERT_THAT(kernels::TensorAmax(gpu.view, scratch.as<AmaxScratch>(),
                                          {}, Stream()),
                      IsOk());
          EXPECT_EQ(scratch.Get<AmaxScratch>().amax, AmaxBits(largest));
        }
      }
    }
  }
  TestTensor empty(DType::kF32, 0, 5);
  Uploaded gpu(empty);
  ASSERT_THAT(
      kernels::TensorAmax(gpu.view, scratch.as<AmaxScratch>(), {}, Stream()),
      IsOk());
  EXPECT_EQ(scratch.Get<AmaxScratch>().amax, 0u);
}

TEST(KernelsCudaTest, AmaxKeepsNaN) {
  for (const DType dtype : kHighPrecisionDTypes) {
    for (int64_t position = 0; position < 40; ++position) {
      TestTensor x = TestTensor::Of(dtype, 5, 8, [&](int64_t r, int64_t c) {
        return r * 8 + c == position ? std::nanf("") : 1e4f;
      });
      Uploaded gpu(x);
      DeviceBytes amax = DeviceBytes::Of<uint32_t>(kGpu, 0);
      ASSERT_THAT(kernels::Amax(gpu.view, amax.as<uint32_t>(), {}, Stream()),
                  IsOk());
      uint32_t host = 0;
      ASSERT_THAT(kernels::Amax(x.view(), &host, {}, Stream()), IsOk());
      EXPECT_GT(host, kFloatInfBits);
      EXPECT_EQ(amax.Get<uint32_t>(), host);
    }
  }
}

TEST(KernelsCudaTest, DecodeAndConvertGiveTheHostsBits) {
  std::vector<uint8_t> codes(256);
  for (size_t i = 0; i < 256; ++i) codes[i] = static_cast<uint8_t>(i);
  DeviceBytes device_codes(kGpu, codes);
  const float scale_inv = 0.01337f;
  DeviceBytes device_scale = DeviceBytes::Of(kGpu, scale_inv);
  for (const Format format : kFp8) {
    for (const DType to : kHighPrecisionDTypes) {
      for (const Layout layout : kLayouts) {
        TestTensor host(to, 16, 16, layout);
        Uploaded gpu(host);
        ASSERT_THAT(kernels::Decode(ConstTensorView::Contiguous(
                                        codes.data(), DType::kUint8, 16, 16),
                                    format, &scale_inv, host.view(), Stream()),
                    IsOk());
        ASSERT_THAT(
            kernels::Decode(
                ConstTensorView::Contiguous(device_codes.as<uint8_t>(),
                                            DType::kUint8, 16, 16, kGpu),
                format, device_scale.as<float>(), gpu.view, Stream()),
            IsOk());
        const std::vector<uint8_t> bytes = gpu.bytes.Download();
        for (int64_t r = 0; r < 16; ++r) {
          for (int64_t c = 0; c < 16; ++c) {
            const int64_t i =
                r * host.view().row_stride + c * host.view().col_stride;
            const float want = host.at(r, c);
            const float got = LoadFloat(to, bytes.data(), i);
            if (std::isnan(want)) {
              EXPECT_TRUE(std::isnan(got));
            } else {
              EXPECT_EQ(BitsFromFloat(got), BitsFromFloat(want));
            }
          }
        }
      }
    }
  }
}

TEST(KernelsCudaTest, StatisticsMatchTheHost) {
  for (const DType dtype : kHighPrecisionDTypes) {
    TestTensor x = Mixed(dtype, 129, 257, 11, Layout::kPadded);
    Uploaded gpu(x);
    const float factor = 31.0f;
    DeviceBytes scale = DeviceBytes::Of(kGpu, factor);
    const auto host = kernels::MeasureCast(
        x.view(), kernels::GivenScale(&factor), Format::kE4M3, Stream());
    const auto cuda =
        kernels::MeasureCast(gpu.view, kernels::GivenScale(scale.as<float>()),
                             Format::kE4M3, Stream());
    ASSERT_THAT(host, IsOk());
    ASSERT_THAT(cuda, IsOk());
    EXPECT_EQ(cuda->count, host->count);
    EXPECT_EQ(cuda->nonzero, host->nonzero);
    EXPECT_EQ(cuda->underflow, host->underflow);
    EXPECT_EQ(cuda->saturation, host->saturation);
    EXPECT_EQ(cuda->non_finite, host->non_finite);
    EXPECT_EQ(cuda->amax_bits, host->amax_bits);
    EXPECT_NEAR(cuda->sqnr_db(), host->sqnr_db(), 0.01);
  }
}

// More than 2^31 elements: looked at where an index of 32 bits would go wrong,
// at the end. All elements are one value but the last, which is the largest.
class MoreThanTwoToThe31Elements : public ::testing::TestWithParam<bool> {
 protected:
  static constexpr int64_t kWidth = 65536;
  static constexpr int64_t kRows = 32768 + 16;
  static constexpr float kLargest = -64.0f;

  // With a first element left out of each row, no row is aligned.
  MoreThanTwoToThe31Elements()
      : cols_(GetParam() ? kWidth - 1 : kWidth),
        size_(kRows * cols_),
        x_(kGpu, static_cast<size_t>(kRows * kWidth) * 2),
        codes_(kGpu, static_cast<size_t>(size_)),
        amax_(DeviceBytes::Of<uint32_t>(kGpu, 0)),
        scale_(DeviceBytes::Of<float>(kGpu, 8.0f)) {
    EXPECT_THAT(FillBytes(kGpu, x_.as<void>(), 0x3C,
                          static_cast<size_t>(kRows * kWidth) * 2, Stream()),
                IsOk());
    const uint16_t largest = 0xC280;  // kLargest
    EXPECT_THAT(CopyFromHost(kGpu, x_.as<uint16_t>() + kRows * kWidth - 1,
                             &largest, 2, Stream()),
                IsOk());
    view_ = TensorView::Contiguous(x_.as<uint16_t>() + (kWidth - cols_),
                                   DType::kBF16, kRows, cols_, kGpu);
    view_.row_stride = kWidth;
  }
  // The last two of size_ elements.
  template <typename T>
  std::array<T, 2> Last(DeviceBytes& bytes) {
    std::array<T, 2> last;
    EXPECT_THAT(CopyToHost(kGpu, last.data(), bytes.as<T>() + size_ - 2,
                           sizeof(last), Stream()),
                IsOk());
    return last;
  }
  std::array<uint8_t, 2> Codes(float scale) const {
    return {EncodeE4M3(FloatFromBF16(0x3C3C) * scale),
            EncodeE4M3(kLargest * scale)};
  }

  const int64_t cols_, size_;
  DeviceBytes x_, codes_, amax_, scale_;
  TensorView view_;
};

INSTANTIATE_TEST_SUITE_P(Rows, MoreThanTwoToThe31Elements, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Unaligned" : "Aligned";
                         });

TEST_P(MoreThanTwoToThe31Elements, Amax) {
  ASSERT_THAT(kernels::Amax(view_, amax_.as<uint32_t>(), {}, Stream()), IsOk());
  EXPECT_EQ(amax_.Get<uint32_t>(), AmaxBits(kLargest));
  DeviceBytes scratch = DeviceBytes::Of(kGpu, AmaxScratch());
  ASSERT_THAT(
      kernels::TensorAmax(view_, scratch.as<AmaxScratch>(), {}, Stream()),
      IsOk());
  EXPECT_EQ(scratch.Get<AmaxScratch>().amax, AmaxBits(kLargest));
}

TEST_P(MoreThanTwoToThe31Elements, CastAndTransposedCopy) {
  DeviceBytes column(kGpu, static_cast<size_t>(size_));
  for (const bool transposed : {false, true}) {
    CastOutput out;
    out.row_wise = codes_.as<uint8_t>();
    if (transposed) out.column_wise = column.as<uint8_t>();
    out.amax = amax_.as<uint32_t>();
    ASSERT_THAT(kernels::Cast(view_, kernels::GivenScale(scale_.as<float>()),
                              Format::kE4M3, out, {}, Stream()),
                IsOk());
    EXPECT_EQ(amax_.Get<uint32_t>(), AmaxBits(kLargest));
    EXPECT_EQ(Last<uint8_t>(codes_), Codes(8.0f));
    if (transposed) {
      EXPECT_EQ(Last<uint8_t>(column), Codes(8.0f));
    }
  }
}

TEST_P(MoreThanTwoToThe31Elements, Counters) {
  for (const bool transposed : {false, true}) {
    DeviceBytes counters = DeviceBytes::Of(kGpu, CastCounters());
    DeviceBytes column(kGpu, transposed ? static_cast<size_t>(size_) : 1);
    CastOutput out;
    out.row_wise = codes_.as<uint8_t>();
    if (transposed) out.column_wise = column.as<uint8_t>();
    out.counters = counters.as<CastCounters>();
    ASSERT_THAT(kernels::Cast(view_, kernels::GivenScale(scale_.as<float>()),
                              Format::kE4M3, out, {}, Stream()),
                IsOk());
    const auto counted = counters.Get<CastCounters>();
    EXPECT_EQ(counted.nonzero, static_cast<uint64_t>(size_));
    EXPECT_EQ(counted.saturation, 1u) << "512 > 448";
    EXPECT_EQ(counted.underflow, 0u);
    EXPECT_EQ(counted.non_finite, 0u);
  }
}

TEST_P(MoreThanTwoToThe31Elements, CurrentScaling) {
  DeviceBytes scratch = DeviceBytes::Of(kGpu, AmaxScratch());
  DeviceBytes inverse = DeviceBytes::Of<float>(kGpu, -1.0f);
  CastScale scale;
  scale.kind = CastScale::Kind::kCurrent;
  scale.scratch = scratch.as<AmaxScratch>();
  scale.current.format_max = 448.0f;
  scale.row_wise_scale_inv = inverse.as<float>();
  CastOutput out;
  out.row_wise = codes_.as<uint8_t>();
  ASSERT_THAT(kernels::Cast(view_, scale, Format::kE4M3, out, {}, Stream()),
              IsOk());
  EXPECT_EQ(inverse.Get<float>(), 1.0f / 7.0f);
  EXPECT_EQ(Last<uint8_t>(codes_), Codes(7.0f));
}

TEST_P(MoreThanTwoToThe31Elements, Decode) {
  CastOutput out;
  out.row_wise = codes_.as<uint8_t>();
  DeviceBytes seven = DeviceBytes::Of<float>(kGpu, 7.0f);
  ASSERT_THAT(kernels::Cast(view_, kernels::GivenScale(seven.as<float>()),
                            Format::kE4M3, out, {}, Stream()),
              IsOk());
  const TensorView codes = TensorView::Contiguous(
      codes_.as<void>(), DType::kUint8, kRows, cols_, kGpu);
  DeviceBytes inverse = DeviceBytes::Of<float>(kGpu, 1.0f / 7.0f);
  const absl::Status cleared = FillBytes(
      kGpu, x_.as<void>(), 0, static_cast<size_t>(size_) * 2, Stream());
  ASSERT_THAT(cleared, IsOk());
  view_ =
      TensorView::Contiguous(x_.as<void>(), DType::kBF16, kRows, cols_, kGpu);
  ASSERT_THAT(kernels::Decode(codes, Format::kE4M3, inverse.as<float>(), view_,
                              Stream()),
              IsOk());
  const auto last = Last<uint16_t>(x_);
  EXPECT_EQ(last[1], 0xC280);
  EXPECT_NEAR(FloatFromBF16(last[0]), FloatFromBF16(0x3C3C), 0.07f * 0.0115f);
}

TEST(KernelsCudaTest, ErrorsAreStatusesAndTheDeviceStays) {
  TestTensor x = TestTensor::Row(DType::kF32, {1, 2});
  TensorView view = x.view();
  view.device = Device::Cuda(99);
  uint32_t amax = 0;
  EXPECT_THAT(
      kernels::Amax(view, &amax, {}, Stream()),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               ::testing::HasSubstr("device cuda:99: this machine has")));
  int current = -1;
  ASSERT_EQ(cudaGetDevice(&current), cudaSuccess);
  EXPECT_EQ(current, 0);
  EXPECT_THAT(DefaultAllocator(Device::Cuda(99)),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       ::testing::HasSubstr("cuda:99")));
}

}  // namespace
}  // namespace scalekeeper
