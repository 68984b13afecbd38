// Quantizers on a GPU against the same on the host; what they refuse.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/cuda/device_guard_cuda.h"
#include "base/cuda/handles_cuda.h"
#include "base/device_memory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "numerics/bits.h"
#include "quantizer/quantizer.h"
#include "tests/quantizer/quantizer_testing.h"
#include "tests/testing/device_bytes.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/test_tensor.h"

namespace scalekeeper {
namespace {

using ::testing::HasSubstr;

const Device kGpu = Device::Cuda(0);

int GpuCount() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

class QuantizerCudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (GpuCount() < 1) GTEST_SKIP() << "needs a GPU";
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  }
  void TearDown() override {
    if (GpuCount() < 1) return;
    int device = -1;
    EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
    EXPECT_EQ(device, 0) << "the current device changed";
  }
};

// What a Quantize left behind.
struct Result {
  std::vector<uint8_t> row_wise, column_wise;
  uint32_t row_wise_scale_inv = 0, column_wise_scale_inv = 0, amax = 0;

  friend bool operator==(const Result& a, const Result& b) {
    return a.row_wise == b.row_wise && a.column_wise == b.column_wise &&
           a.row_wise_scale_inv == b.row_wise_scale_inv &&
           a.column_wise_scale_inv == b.column_wise_scale_inv &&
           a.amax == b.amax;
  }
};

template <typename T>
T Read(Device device, const T* data) {
  T value{};
  EXPECT_THAT(CopyToHost(device, &value, data, sizeof(T), Stream()), IsOk());
  return value;
}
std::vector<uint8_t> Bytes(Device device, const Buffer& buffer) {
  std::vector<uint8_t> bytes(buffer.size());
  EXPECT_THAT(
      CopyToHost(device, bytes.data(), buffer.data(), bytes.size(), Stream()),
      IsOk());
  return bytes;
}

Result ResultOf(const Rig& rig, const QuantizedTensor& q) {
  Result result;
  if (q.row_wise) {
    result.row_wise = Bytes(q.device, q.row_wise->codes);
    result.row_wise_scale_inv =
        Read(q.device, q.row_wise->scale_inv.as<uint32_t>());
  }
  if (q.column_wise) {
    result.column_wise = Bytes(q.device, q.column_wise->codes);
    result.column_wise_scale_inv =
        Read(q.device, q.column_wise->scale_inv.as<uint32_t>());
  }
  result.amax =
      Read(q.device, rig.module.state->View(rig.module.slots.input).amax);
  return result;
}

float Rough(int64_t r, int64_t c, float largest) {
  const auto hash = static_cast<uint32_t>(r * 7919 + c * 104729) * 2654435761u;
  return largest * (static_cast<float>(hash >> 8) * 0x1p-23f - 1.0f);
}
TestTensor RoughTensor(DType dtype, int64_t rows, int64_t cols, float largest,
                       Layout layout = Layout::kContiguous) {
  return TestTensor::Of(
      dtype, rows, cols,
      [largest](int64_t r, int64_t c) { return Rough(r, c, largest); }, layout);
}

// Scales of a tensor's own amax, by one launch or two: each shape several
// times into one tensor, whose workspace must be as new after each.
TEST_F(QuantizerCudaTest, TensorsThatAreMeasuredGiveTheHostsBits) {
  const struct {
    int64_t rows, cols;
  } shapes[] = {
      {1, 1},   {17, 129},    {256, 384},  {1000, 300},
      {0, 256}, {2048, 2048}, {2064, 4112}};  // the last in more blocks than
                                              // fit at once
  for (const std::string& recipe :
       {DelayedRecipe("margin: 1"), CurrentRecipe()}) {
    for (const Usages& usages : {Usages{true, false}, kBoth}) {
      for (const DType dtype : kHighPrecisionDTypes) {
        for (const auto& shape : shapes) {
          SCOPED_TRACE(recipe + " " + std::to_string(shape.rows) + "x" +
                       std::to_string(shape.cols) + " " +
                       std::string(Name(dtype)));
          Rig host(recipe, usages);
          Rig gpu(recipe, usages, kGpu);
          QuantizedTensor host_q =
              ValueOrDie(host.quantizer->MakeEmpty(shape.rows, shape.cols));
          QuantizedTensor gpu_q =
              ValueOrDie(gpu.quantizer->MakeEmpty(shape.rows, shape.cols));
          for (const float largest : {3.0f, 0.02f, 0.0f}) {
            TestTensor x = RoughTensor(dtype, shape.rows, shape.cols, largest);
            DeviceBytes device_x(kGpu, x.bytes());
            ASSERT_THAT(host.quantizer->QuantizeInto(x.view(), &host_q, nullptr,
                                                     kStream),
                        IsOk());
            ASSERT_THAT(gpu.quantizer->QuantizeInto(
                            OnDevice(x.view(), kGpu, device_x.as<void>()),
                            &gpu_q, nullptr, kStream),
                        IsOk());
            ASSERT_TRUE(ResultOf(gpu, gpu_q) == ResultOf(host, host_q))
                << largest;
          }
        }
      }
    }
  }
}

// Casts that measure do so with all their blocks; many at once share the chip.
TEST_F(QuantizerCudaTest, ManyStreamsMeasureAtOnce) {
  constexpr size_t kStreams = 24;
  constexpr int64_t kRows = 2048, kCols = 2048 + 16;
  Rig rig(DelayedRecipe(""), kBoth, kGpu);
  TestTensor x = RoughTensor(DType::kBF16, kRows, kCols, 5.0f);
  DeviceBytes device_x(kGpu, x.bytes());
  const TensorView view = OnDevice(x.view(), kGpu, device_x.as<void>());
  const Result want =
      ResultOf(rig, ValueOrDie(rig.quantizer->Quantize(view, kStream)));
  std::vector<CudaStream> streams;
  std::vector<QuantizedTensor> tensors;
  for (size_t i = 0; i < kStreams; ++i) {
    streams.push_back(ValueOrDie(CreateCudaStream()));
    tensors.push_back(ValueOrDie(rig.quantizer->MakeEmpty(kRows, kCols)));
  }
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  for (int repeat = 0; repeat < 10; ++repeat) {
    for (size_t i = 0; i < kStreams; ++i) {
      ASSERT_THAT(rig.quantizer->QuantizeInto(view, &tensors[i], nullptr,
                                              AsStream(streams[i])),
                  IsOk());
    }
  }
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  for (const QuantizedTensor& tensor : tensors) {
    EXPECT_TRUE(ResultOf(rig, tensor) == want);
  }
}

TEST_F(QuantizerCudaTest, ANoopFlagLeavesATensorThatWouldBeMeasured) {
  Rig rig(DelayedRecipe(""), kBoth, kGpu);
  TestTensor x = RoughTensor(DType::kBF16, 64, 64, 5.0f);
  DeviceBytes device_x(kGpu, x.bytes());
  const TensorView view = OnDevice(x.view(), kGpu, device_x.as<void>());
  DeviceBytes flag = DeviceBytes::Of<uint32_t>(kGpu, 1);
  DeviceBytes zeros(kGpu, std::vector<uint8_t>(x.bytes().size()));
  QuantizedTensor q = ValueOrDie(rig.quantizer->Quantize(
      OnDevice(x.view(), kGpu, zeros.as<void>()), kStream));
  const Result before = ResultOf(rig, q);
  ASSERT_THAT(
      rig.quantizer->QuantizeInto(view, &q, flag.as<uint32_t>(), kStream),
      IsOk());
  EXPECT_TRUE(ResultOf(rig, q) == before);
  const uint32_t zero = 0;
  flag.Upload(&zero, sizeof(zero));
  ASSERT_THAT(
      rig.quantizer->QuantizeInto(view, &q, flag.as<uint32_t>(), kStream),
      IsOk());
  Rig host(DelayedRecipe(""));
  EXPECT_TRUE(ResultOf(rig, q) == ResultOf(host, host.Quantize(x)));
}

// Pointers that are aligned to their element alone, rows that are not.
TEST_F(QuantizerCudaTest, MisalignedViewsGiveTheHostsBits) {
  for (const DType dtype : kHighPrecisionDTypes) {
    for (const Layout layout : kLayouts) {
      for (const size_t elements : {1, 3, 7}) {
        Rig host(UnitRecipe());
        Rig gpu(UnitRecipe(), kBoth, kGpu);
        TestTensor x = RoughTensor(dtype, 48, 64, 300.0f, layout);
        const size_t offset = elements * SizeOf(dtype);
        std::vector<uint8_t> shifted(offset, 0xFF);
        shifted.insert(shifted.end(), x.bytes().begin(), x.bytes().end());
        DeviceBytes device_x(kGpu, shifted);
        const QuantizedTensor q = ValueOrDie(gpu.quantizer->Quantize(
            OnDevice(x.view(), kGpu, device_x.as<uint8_t>() + offset),
            kStream));
        EXPECT_TRUE(ResultOf(gpu, q) == ResultOf(host, host.Quantize(x)))
            << Describe(x.view()) << " offset " << offset;
      }
    }
  }
  Rig gpu(UnitRecipe(), kBoth, kGpu);
  DeviceBytes bytes(kGpu, 64);
  EXPECT_THAT(gpu.quantizer->Quantize(
                  ConstTensorView::Contiguous(bytes.as<uint8_t>() + 1,
                                              DType::kBF16, 1, 8, kGpu),
                  kStream),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("x: got a pointer that is not aligned to 2")));
}

TEST_F(QuantizerCudaTest, MemoryThatIsNotWhereItsViewSaysIsRefused) {
  Rig rig(UnitRecipe(), kBoth, kGpu);
  TestTensor x = TestTensor::Row(DType::kF32, {1, 2});
  DeviceBytes device_x(kGpu, x.bytes());
  const TensorView good = OnDevice(x.view(), kGpu, device_x.as<void>());
  TensorView liar = x.view();
  liar.device = kGpu;
  const auto refused = StatusIs(
      absl::StatusCode::kInvalidArgument,
      HasSubstr("x is said to be on cuda:0, but its memory is the host's"));
  QuantizedTensor q = ValueOrDie(rig.quantizer->Quantize(good, kStream));
  const Result before = ResultOf(rig, q);
  EXPECT_THAT(rig.quantizer->Quantize(liar, kStream), refused);
  EXPECT_THAT(rig.quantizer->QuantizeInto(liar, &q, nullptr, kStream), refused);
  EXPECT_THAT(rig.quantizer->Calibrate(liar, kStream), refused);
  EXPECT_THAT(rig.quantizer->Measure(liar, kStream), refused);
  EXPECT_TRUE(ResultOf(rig, q) == before);
  EXPECT_THAT(rig.quantizer->QuantizeInto(good, &q, nullptr, kStream), IsOk());
  if (GpuCount() < 2) GTEST_SKIP() << "the rest needs two GPUs";
  DeviceBytes elsewhere(Device::Cuda(1), x.bytes());
  EXPECT_THAT(
      rig.quantizer->QuantizeInto(
          OnDevice(x.view(), kGpu, elsewhere.as<void>()), &q, nullptr, kStream),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("its memory is on cuda:1")));
}

TEST_F(QuantizerCudaTest, ANoopFlagOfTheHostsIsRefused) {
  Rig rig(UnitRecipe(), kBoth, kGpu);
  TestTensor x = TestTensor::Row(DType::kF32, {1, 2});
  DeviceBytes device_x(kGpu, x.bytes());
  const TensorView view = OnDevice(x.view(), kGpu, device_x.as<void>());
  QuantizedTensor q = ValueOrDie(rig.quantizer->Quantize(view, kStream));
  const Result before = ResultOf(rig, q);
  const uint32_t on_host = 0;
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(
        rig.quantizer->QuantizeInto(view, &q, &on_host, kStream),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 HasSubstr("noop_flag is said to be on cuda:0, but its memory "
                           "is the host's")));
  }
  EXPECT_TRUE(ResultOf(rig, q) == before);
  DeviceBytes flag = DeviceBytes::Of(kGpu, uint32_t{0});
  EXPECT_THAT(
      rig.quantizer->QuantizeInto(view, &q, flag.as<uint32_t>(), kStream),
      IsOk());
}

// H8
TEST_F(QuantizerCudaTest, TheCurrentDeviceNeedNotBeTheTensors) {
  if (GpuCount() < 2) GTEST_SKIP() << "needs two GPUs";
  Rig host(DelayedRecipe(""));
  TestTensor x = RoughTensor(DType::kBF16, 48, 64, 3.0f);
  const Result want = ResultOf(host, host.Quantize(x));
  for (const int current : {0, 1}) {
    const Device device = Device::Cuda(1 - current);
    const CudaDeviceGuard guard = ValueOrDie(CudaDeviceGuard::Enter(current));
    const auto stays = [current] {
      int now = -1;
      EXPECT_EQ(cudaGetDevice(&now), cudaSuccess);
      EXPECT_EQ(now, current);
    };
    Rig rig(DelayedRecipe(""), kBoth, device);
    stays();
    DeviceBytes device_x(device, x.bytes());
    const TensorView view = OnDevice(x.view(), device, device_x.as<void>());
    QuantizedTensor q = ValueOrDie(rig.quantizer->Quantize(view, kStream));
    stays();
    EXPECT_TRUE(ResultOf(rig, q) == want);
    TensorView back = view;
    EXPECT_THAT(rig.quantizer->Calibrate(view, kStream), IsOk());
    EXPECT_THAT(rig.quantizer->Measure(view, kStream), IsOk());
    EXPECT_THAT(rig.quantizer->Dequantize(q, back, kStream), IsOk());
    stays();
    EXPECT_THAT(rig.module.state->EndStep(kStream), IsOk());
    EXPECT_THAT(rig.module.state->Check(kStream), IsOk());
    stays();
  }
}

}  // namespace
}  // namespace scalekeeper
