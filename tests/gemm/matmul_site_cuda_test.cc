// Where and when Matmul runs on a GPU: CUDA graphs, threads and streams, saved
// plans, a second device.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gemm/matmul.h"
#include "gemm/matmul_plans.h"
#include "gtest/gtest.h"
#include "numerics/bits.h"
#include "tests/gemm/matmul_cuda_testing.h"

namespace scalekeeper {
namespace {

using ::testing::HasSubstr;

// One call of each kind: direct, padded, transposed, finished, into codes.
class GraphTest : public MatmulCudaTest {
 protected:
  struct Work {
    QuantizedTensor a, b;
    DeviceTensor out;
    MatmulOptions options;
  };

  // `salt` makes shapes that no other test has multiplied.
  std::vector<Work> MakeWork(int64_t salt) {
    std::vector<Work> work;
    for (Shape s : {Shape{64, 64, 64}, Shape{64, 64, 72}, Shape{64, 30, 64}}) {
      s.m += salt;
      for (const bool transa : {false, true}) {
        Product product;
        product.shape = s;
        product.value = RandomValue;
        product.transa = transa;
        MatmulOptions options;
        options.transa = transa;
        options.transb = true;
        options.activation = Activation::kGelu;
        work.push_back({product.A(kGpu), product.B(kGpu),
                        ValueOf(DeviceTensor::Of(
                            kGpu, TestTensor(DType::kBF16, s.m, s.n))),
                        options});
      }
    }
    return work;
  }
  void Enqueue(std::vector<Work>* work) {
    for (Work& w : *work) {
      ASSERT_THAT(Matmul(w.a, w.b, w.out.view(), w.options, stream_), IsOk());
    }
  }
  std::vector<std::vector<uint8_t>> Outputs(std::vector<Work>* work) {
    std::vector<std::vector<uint8_t>> outputs;
    for (Work& w : *work) {
      outputs.push_back(ValueOf(w.out.Download(stream_)).bytes());
    }
    return outputs;
  }
  void Clear(std::vector<Work>* work) {
    for (Work& w : *work) {
      const TensorView out = w.out.view();
      ASSERT_THAT(FillBytes(kGpu, out.data, 0xFF,
                            static_cast<size_t>(out.size()) * 2, stream_),
                  IsOk());
    }
  }
  CudaGraphExec Capture(std::vector<Work>* work) {
    EXPECT_EQ(
        cudaStreamBeginCapture(cuda_stream_.get(), cudaStreamCaptureModeGlobal),
        cudaSuccess);
    Enqueue(work);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(cuda_stream_.get(), &graph), cudaSuccess);
    const CudaGraph owner(graph);
    cudaGraphExec_t exec = nullptr;
    EXPECT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    return CudaGraphExec(exec);
  }
};

TEST_F(GraphTest, ReplaysEqualEagerCalls) {
  std::vector<Work> work = MakeWork(0);
  Enqueue(&work);
  const auto want = Outputs(&work);
  const CudaGraphExec graph = Capture(&work);
  for (int replay = 0; replay < 20; ++replay) {
    Clear(&work);
    ASSERT_EQ(cudaGraphLaunch(graph.get(), cuda_stream_.get()), cudaSuccess);
    ASSERT_EQ(Outputs(&work), want) << "replay " << replay;
  }
}

TEST_F(GraphTest, TheFirstCallOfAShapeMayBeCaptured) {
  std::vector<Work> work = MakeWork(112);
  const CudaGraphExec graph = Capture(&work);
  Clear(&work);
  ASSERT_EQ(cudaGraphLaunch(graph.get(), cuda_stream_.get()), cudaSuccess);
  const auto got = Outputs(&work);
  Enqueue(&work);  // now timed: perhaps another algorithm
  const auto eager = Outputs(&work);
  for (size_t i = 0; i < got.size(); ++i) {
    for (size_t j = 0; j + 1 < got[i].size(); j += 2) {
      const auto value = [j](const std::vector<uint8_t>& bytes) {
        return FloatFromBF16(
            static_cast<uint16_t>(bytes[j] | (bytes[j + 1] << 8)));
      };
      ASSERT_NEAR(value(got[i]), value(eager[i]), 0.05) << i << " " << j;
    }
  }
}

TEST_F(MatmulCudaTest, ThreadsOnOneStreamAndOnTheirOwn) {
  for (const bool own_streams : {false, true}) {
    std::vector<std::thread> threads;
    std::vector<int> wrong(4, 0);
    for (size_t t = 0; t < wrong.size(); ++t) {
      threads.emplace_back([&, t] {
        // Odd sizes: all of them share the staging memory of a stream.
        Product product;
        product.shape = {40 + static_cast<int64_t>(t), 30, 50};
        const QuantizedTensor a = product.A(kGpu);
        const QuantizedTensor b = product.B(kGpu);
        CudaStream own = ValueOf(CreateCudaStream());
        const Stream stream = own_streams ? AsStream(own) : stream_;
        const TestTensor blank(DType::kF32, product.shape.m, 30);
        TestTensor want = blank;
        MatmulOptions options;
        options.transb = true;
        if (!Matmul(product.A(kHost), product.B(kHost), want.view(), options,
                    Stream())
                 .ok()) {
          wrong[t] = -1;
        }
        for (int i = 0; i < 50; ++i) {
          DeviceTensor out = ValueOf(DeviceTensor::Of(kGpu, blank));
          if (!Matmul(a, b, out.view(), options, stream).ok() ||
              ValueOf(out.Download(stream)).bytes() != want.bytes()) {
            ++wrong[t];
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, std::vector<int>(4, 0)) << own_streams;
  }
}

TEST_F(MatmulCudaTest, PlansAreSavedAndLoaded) {
  Product product;
  product.shape = {256, 256, 256};
  const TestTensor out(DType::kBF16, 256, 256);
  ExpectAsHost(product, out);
  const std::string path = absl::StrCat(::testing::TempDir(), "/plans.txt");
  const std::string again = path + ".again";
  ASSERT_THAT(SaveMatmulPlans(kGpu, path), IsOk());
  ASSERT_THAT(LoadMatmulPlans(kGpu, path), IsOk());
  ASSERT_THAT(SaveMatmulPlans(kGpu, again), IsOk());
  const auto read = [](const std::string& name) {
    std::string text;
    if (std::FILE* file = std::fopen(name.c_str(), "rb")) {
      char chunk[4096];
      for (size_t n = 0; (n = std::fread(chunk, 1, sizeof(chunk), file)) > 0;) {
        text.append(chunk, n);
      }
      std::fclose(file);
    }
    return text;
  };
  const std::string text = read(path);
  EXPECT_THAT(text, HasSubstr("plan 256 256 256 "));
  EXPECT_EQ(read(again), text);

  const std::string foreign = path + ".foreign";
  std::FILE* file = std::fopen(foreign.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  std::fputs(text.substr(0, text.size() / 2).c_str(), file);
  std::fclose(file);
  EXPECT_THAT(LoadMatmulPlans(kGpu, foreign),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr(".foreign: matmul plans, line")));
  EXPECT_THAT(LoadMatmulPlans(kHost, path),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("want a CUDA device")));
  EXPECT_THAT(
      SaveMatmulPlans(Device::Cuda(4711), path),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("cuda:4711")));
  ExpectAsHost(product, out);
}

// What is refused leaves nothing that would hide it from the next call.
TEST_F(MatmulCudaTest, MemoryOfTheHostIsRefusedEachTime) {
  constexpr int64_t kM = 40, kN = 48, kK = 176;
  TestTensor on_host = SmallIntegers(DType::kBF16, kM, kK, 1);
  TensorView a = on_host.view();
  a.device = kGpu;  // which is not true
  DeviceTensor plain =
      ValueOf(DeviceTensor::Of(kGpu, SmallIntegers(DType::kBF16, kN, kK, 2)));
  Product product;
  product.shape = {kM, kN, kK};
  const QuantizedTensor codes = product.B(kGpu);
  DeviceTensor out =
      ValueOf(DeviceTensor::Of(kGpu, TestTensor(DType::kF32, kM, kN)));
  MatmulOptions options;
  options.transb = options.emulate = true;
  for (int time = 0; time < 2; ++time) {
    for (const MatmulOperand& b :
         {MatmulOperand(plain.view()), MatmulOperand(codes)}) {
      EXPECT_THAT(Matmul(a, b, out.view(), options, stream_),
                  StatusIs(absl::StatusCode::kInvalidArgument,
                           HasSubstr("a is said to be on cuda:0")));
    }
  }
  EXPECT_EQ(cudaStreamSynchronize(cuda_stream_.get()), cudaSuccess);
}

// H8
TEST_F(MatmulCudaTest, AnotherDeviceThanTheCurrentOne) {
  int count = 0;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  if (count < 2) GTEST_SKIP() << "needs two GPUs";
  const Device other = Device::Cuda(1);
  Product product;
  const Shape& s = product.shape;
  const TestTensor blank(DType::kBF16, s.m, s.n);
  DeviceTensor out = ValueOf(DeviceTensor::Of(other, blank));
  MatmulOptions options;
  options.transb = true;
  // The legacy stream of the device that is current during the call.
  ASSERT_THAT(
      Matmul(product.A(other), product.B(other), out.view(), options, Stream()),
      IsOk());
  int current = -1;
  ASSERT_EQ(cudaGetDevice(&current), cudaSuccess);
  EXPECT_EQ(current, 0);
  EXPECT_EQ(ValueOf(out.Download(Stream())).bytes(),
            Multiply(kHost, product, blank).bytes());
  EXPECT_THAT(
      Matmul(product.A(kGpu), product.B(other), out.view(), options, Stream()),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("a is on cuda:0, want out's device cuda:1")));
}

}  // namespace
}  // namespace scalekeeper
