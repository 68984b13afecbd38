// Products per expert on a GPU against the host.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/device_memory.h"
#include "base/status_macros.h"
#include "gemm/grouped_matmul.h"
#include "gtest/gtest.h"
#include "quantizer/dequantizer.h"
#include "tests/gemm/matmul_cuda_testing.h"
#include "tests/gemm/scaled_testing.h"

namespace scalekeeper {
namespace {

using ::testing::HasSubstr;

class GroupedMatmulCudaTest : public MatmulCudaTest {
 protected:
  static constexpr int64_t kN = 48, kK = 256, kM = 32;

  static int64_t TokensOf(const std::vector<int64_t>& splits) {
    int64_t tokens = 0;
    for (const int64_t count : splits) tokens += count;
    return tokens;
  }

  std::vector<uint8_t> Forward(Device device, const ScaledKind& kind,
                               const std::vector<int64_t>& splits) {
    const int64_t tokens = TokensOf(splits);
    const QuantizedTensor a =
        ValueOf(ScaledOperand(kind, tokens, kK, 1).Make(device));
    std::vector<QuantizedTensor> weights;
    for (size_t e = 0; e < splits.size(); ++e) {
      weights.push_back(
          ValueOf(ScaledOperand(kind, kN, kK, 10 + static_cast<uint32_t>(e))
                      .Make(device)));
    }
    std::vector<MatmulOperand> b;
    for (const QuantizedTensor& weight : weights) b.push_back(weight);
    DeviceTensor out =
        ValueOf(DeviceTensor::Of(device, TestTensor(DType::kBF16, tokens, kN)));
    MatmulOptions options;
    options.transb = options.emulate = true;
    EXPECT_THAT(GroupedMatmul(a, b, out.view(), splits, options, stream_),
                IsOk());
    return ValueOf(out.Download(stream_)).bytes();
  }

  std::vector<std::vector<uint8_t>> Wgrad(Device device, const ScaledKind& kind,
                                          const std::vector<int64_t>& splits,
                                          bool accumulate) {
    const int64_t tokens = TokensOf(splits);
    const QuantizedTensor a = ValueOf(
        ScaledOperand(kind, kM, tokens, 1).Make(device, Held::kColumnWise));
    const QuantizedTensor b = ValueOf(
        ScaledOperand(kind, kN, tokens, 2).Make(device, Held::kColumnWise));
    std::vector<DeviceTensor> out;
    std::vector<TensorView> views;
    for (size_t e = 0; e < splits.size(); ++e) {
      out.push_back(ValueOf(
          DeviceTensor::Of(device, SmallIntegers(DType::kF32, kM, kN, 5))));
      views.push_back(out.back().view());
    }
    MatmulOptions options;
    options.transa = options.emulate = true;
    options.accumulate = accumulate;
    EXPECT_THAT(GroupedMatmulWgrad(a, b, views, splits, options, stream_),
                IsOk());
    std::vector<std::vector<uint8_t>> bytes;
    for (DeviceTensor& o : out) {
      bytes.push_back(ValueOf(o.Download(stream_)).bytes());
    }
    return bytes;
  }
};

// G1, D12
TEST_F(GroupedMatmulCudaTest, EqualsTheHost) {
  const std::vector<int64_t> cases[] = {
      {5, 0, 3}, {8, 0}, {0, 0}, {64, 33, 0}, {128, 256, 0, 128, 384, 17}};
  for (const ScaledKind& kind : {kCurrentKind, kRowwiseKind, k1x128Kind,
                                 k128x128Kind, kMxfp8Kind, kNvfp4Kind}) {
    for (const std::vector<int64_t>& splits : cases) {
      SCOPED_TRACE(absl::StrCat(kind.name, ": ", absl::StrJoin(splits, " ")));
      bool begins_at_blocks = true;
      int64_t first = 0;
      for (const int64_t count : splits) {
        const int64_t block = std::max<int64_t>(1, kind.block_cols);
        begins_at_blocks &= count == 0 || first % block == 0;
        first += count;
      }
      if (kind.block_rows <= 1 || begins_at_blocks) {
        EXPECT_EQ(Forward(kGpu, kind, splits), Forward(kHost, kind, splits));
      }
      if (!begins_at_blocks) continue;
      for (const bool accumulate : {false, true}) {
        EXPECT_EQ(Wgrad(kGpu, kind, splits, accumulate),
                  Wgrad(kHost, kind, splits, accumulate));
      }
    }
  }
}

// H6: 8-bit codes from 8 bytes past an aligned one, in rows of 120 bytes.
TEST_F(GroupedMatmulCudaTest, CodesThatAreNotAlignedAreCopied) {
  const std::vector<int64_t> splits = {5, 2, 9};
  const auto run = [&](Device device) {
    const QuantizedTensor a =
        ValueOf(ScaledOperand(kCurrentKind, 16, 120, 1).Make(device));
    const QuantizedTensor weight =
        ValueOf(ScaledOperand(kCurrentKind, kN, 120, 2).Make(device));
    const std::vector<MatmulOperand> b(3, weight);
    DeviceTensor out =
        ValueOf(DeviceTensor::Of(device, TestTensor(DType::kF32, 16, kN)));
    MatmulOptions options;
    options.transb = true;
    EXPECT_THAT(GroupedMatmul(a, b, out.view(), splits, options, stream_),
                IsOk());
    return ValueOf(out.Download(stream_)).bytes();
  };
  EXPECT_EQ(run(kGpu), run(kHost));
}

// Counts that change from step to step share plans.
TEST_F(GroupedMatmulCudaTest, AnyCountsAfterTheFirst) {
  for (const ScaledKind& kind : {kCurrentKind, k1x128Kind, kMxfp8Kind}) {
    for (int64_t i = 0; i < 20; ++i) {
      const std::vector<int64_t> splits = {(i * 37) % 91, (i * 53) % 130,
                                           (i * 11) % 64, 128};
      SCOPED_TRACE(absl::StrCat(kind.name, ": ", absl::StrJoin(splits, " ")));
      ASSERT_EQ(Forward(kGpu, kind, splits), Forward(kHost, kind, splits));
    }
  }
  for (int64_t i = 0; i < 20; ++i) {
    const std::vector<int64_t> splits = {(i * 37) % 91, (i * 53) % 130, 128};
    ASSERT_EQ(Wgrad(kGpu, kCurrentKind, splits, true),
              Wgrad(kHost, kCurrentKind, splits, true));
  }
}

TEST_F(GroupedMatmulCudaTest, PlainOperands) {
  const std::vector<int64_t> splits = {5, 0, 40, 3, 16};
  const auto run = [&](Device device) {
    DeviceTensor a = ValueOf(
        DeviceTensor::Of(device, SmallIntegers(DType::kBF16, 64, kK, 1)));
    std::vector<DeviceTensor> weights;
    std::vector<MatmulOperand> b;
    for (uint32_t e = 0; e < 5; ++e) {
      weights.push_back(ValueOf(DeviceTensor::Of(
          device, SmallIntegers(DType::kBF16, kK, kN, 10 + e))));
      b.push_back(weights.back().view());
    }
    DeviceTensor out =
        ValueOf(DeviceTensor::Of(device, TestTensor(DType::kF32, 64, kN)));
    EXPECT_THAT(GroupedMatmul(a.view(), b, out.view(), splits, {}, stream_),
                IsOk());
    return ValueOf(out.Download(stream_)).bytes();
  };
  EXPECT_EQ(run(kGpu), run(kHost));
}

TEST_F(GroupedMatmulCudaTest, CapturedGroupsReplayToTheSameBits) {
  const std::vector<int64_t> splits = {100, 0, 28, 128, 64};
  const int64_t tokens = TokensOf(splits);
  const QuantizedTensor a =
      ValueOf(ScaledOperand(kRowwiseKind, tokens, kK, 1).Make(kGpu));
  std::vector<QuantizedTensor> weights;
  std::vector<MatmulOperand> b;
  for (uint32_t e = 0; e < splits.size(); ++e) {
    weights.push_back(
        ValueOf(ScaledOperand(kRowwiseKind, kN, kK, 10 + e).Make(kGpu)));
  }
  for (const QuantizedTensor& weight : weights) b.push_back(weight);
  DeviceTensor out =
      ValueOf(DeviceTensor::Of(kGpu, TestTensor(DType::kBF16, tokens, kN)));
  MatmulOptions options;
  options.transb = true;
  const auto enqueue = [&] {
    ASSERT_THAT(GroupedMatmul(a, b, out.view(), splits, options, stream_),
                IsOk());
  };
  enqueue();
  const TestTensor want = ValueOf(out.Download(stream_));
  ASSERT_EQ(
      cudaStreamBeginCapture(cuda_stream_.get(), cudaStreamCaptureModeGlobal),
      cudaSuccess);
  enqueue();
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(cuda_stream_.get(), &graph), cudaSuccess);
  const CudaGraph owner(graph);
  cudaGraphExec_t handle = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&handle, graph, 0), cudaSuccess);
  const CudaGraphExec exec(handle);
  for (int replay = 0; replay < 20; ++replay) {
    ASSERT_THAT(FillBytes(kGpu, out.view().data, 0xFF,
                          static_cast<size_t>(tokens * kN) * 2, stream_),
                IsOk());
    ASSERT_EQ(cudaGraphLaunch(exec.get(), cuda_stream_.get()), cudaSuccess);
    ASSERT_EQ(ValueOf(out.Download(stream_)).bytes(), want.bytes());
  }
  enqueue();  // and eagerly again
  EXPECT_EQ(ValueOf(out.Download(stream_)).bytes(), want.bytes());
}

// An expert whose product fails in a capture: the lanes are joined, and the
// capture is sound.
TEST_F(GroupedMatmulCudaTest, AFailureLeavesACaptureSound) {
  const std::vector<int64_t> splits = {16, 16, 16, 40};
  DeviceTensor a =
      ValueOf(DeviceTensor::Of(kGpu, SmallIntegers(DType::kBF16, 88, kK, 1)));
  TestTensor on_host = SmallIntegers(DType::kBF16, kN, kK, 2);
  DeviceTensor weight =
      ValueOf(DeviceTensor::Of(kGpu, SmallIntegers(DType::kBF16, kK, kN, 2)));
  TensorView wrong = on_host.view();
  wrong.device = kGpu;  // which is not true
  // The last has a shape and strides that no other test has, and so a plan of
  // its own that is not there yet: its memory is looked at.
  const MatmulOperand b[] = {weight.view(), weight.view(), weight.view(),
                             TensorView(wrong.Transposed())};
  DeviceTensor out =
      ValueOf(DeviceTensor::Of(kGpu, TestTensor(DType::kF32, 88, kN)));
  MatmulOptions options;
  ASSERT_EQ(
      cudaStreamBeginCapture(cuda_stream_.get(), cudaStreamCaptureModeGlobal),
      cudaSuccess);
  EXPECT_THAT(GroupedMatmul(a.view(), b, out.view(), splits, options, stream_),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("b is said to be on cuda:0")));
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(cuda_stream_.get(), &graph), cudaSuccess);
  const CudaGraph owner(graph);
  EXPECT_NE(graph, nullptr);
}

// bfloat16 ones; counts how often it is asked, and multiplies on the stream
// meanwhile.
class OnesDequantizer : public Dequantizer {
 public:
  absl::Status DequantizeTo(const QuantizedTensor& q, const TensorView& out,
                            Stream stream) const override {
    ++reads;
    SK_RETURN_IF_ERROR(Matmul(own_a->view(), own_b->view(), own_out->view(),
                              MatmulOptions(), stream));
    const std::vector<MatmulOperand> experts(2, own_b->view());
    SK_RETURN_IF_ERROR(GroupedMatmul(own_a->view(), experts, own_out->view(),
                                     {3, 5}, MatmulOptions(), stream));
    const std::vector<uint16_t> ones(static_cast<size_t>(q.rows * q.cols),
                                     0x3F80);
    return CopyFromHost(q.device, out.data, ones.data(), ones.size() * 2,
                        stream);
  }
  mutable int reads = 0;
  DeviceTensor *own_a = nullptr, *own_b = nullptr, *own_out = nullptr;
};

TEST_F(GroupedMatmulCudaTest, AMakerMayMultiplyAndReadsTokensOnce) {
  OnesDequantizer maker;
  DeviceTensor own_a =
      ValueOf(DeviceTensor::Of(kGpu, SmallIntegers(DType::kBF16, 8, 16, 1)));
  DeviceTensor own_b =
      ValueOf(DeviceTensor::Of(kGpu, SmallIntegers(DType::kBF16, 16, 8, 1)));
  DeviceTensor own_out =
      ValueOf(DeviceTensor::Of(kGpu, TestTensor(DType::kF32, 8, 8)));
  maker.own_a = &own_a;
  maker.own_b = &own_b;
  maker.own_out = &own_out;
  QuantizedTensor tokens =
      ValueOf(ScaledOperand(kCurrentKind, 24, kK, 1).Make(kGpu));
  tokens.scaling = Scaling::kCustom;
  tokens.dequantizer = &maker;
  const QuantizedTensor weight =
      ValueOf(ScaledOperand(kMxfp8Kind, kN, kK, 1).Make(kGpu));
  const QuantizedTensor host_weight =
      ValueOf(ScaledOperand(kMxfp8Kind, kN, kK, 1).Make(kHost));
  const std::vector<MatmulOperand> b(3, weight);
  DeviceTensor out =
      ValueOf(DeviceTensor::Of(kGpu, TestTensor(DType::kF32, 24, kN)));
  MatmulOptions options;
  options.transb = options.emulate = true;
  ASSERT_THAT(
      GroupedMatmul(tokens, b, out.view(), {8, 0, 16}, options, stream_),
      IsOk());
  EXPECT_EQ(maker.reads, 1);
  TestTensor ones = TestTensor::Of(DType::kBF16, 24, kK,
                                   [](int64_t, int64_t) { return 1.0f; });
  TestTensor want(DType::kF32, 24, kN);
  ASSERT_THAT(Matmul(ones.view(), host_weight, want.view(), options, Stream()),
              IsOk());
  EXPECT_EQ(ValueOf(out.Download(stream_)).bytes(), want.bytes());
  MatmulOptions native;
  native.transb = true;
  EXPECT_THAT(Matmul(tokens, weight, out.view(), native, stream_),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("custom x mxfp8 E4M3")));
}

}  // namespace
}  // namespace scalekeeper
