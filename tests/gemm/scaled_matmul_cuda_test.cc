// Products of operands with scales of rows and blocks on a GPU, native and
// emulated, against the host. Inputs are small integers times powers of two, so
// that sums are exact and bytes are compared; where they are random, the bound
// is the one that gemm/matmul.h states.
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/device_memory.h"
#include "gemm/matmul.h"
#include "gemm/matmul_problem.h"
#include "gemm/operand_layout.h"
#include "gemm/scaled_kernels_cuda.h"
#include "gtest/gtest.h"
#include "quantizer/dequantizer.h"
#include "tests/gemm/matmul_cuda_testing.h"
#include "tests/gemm/scaled_testing.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ScaledMatmulCudaTest : public MatmulCudaTest {
 protected:
  void SetUp() override {
    MatmulCudaTest::SetUp();
    cudaDeviceProp properties;
    ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
    if (properties.major != 9) {
      GTEST_SKIP() << "what is native here is that of compute capability 9.0";
    }
  }

  // op(a) op(b)^T on both devices.
  void ExpectAsHost(const ScaledOperand& a, const ScaledOperand& b,
                    const TestTensor& out, MatmulOptions options,
                    const TestTensor* bias = nullptr,
                    Held a_held = Held::kRowWise, Held b_held = Held::kRowWise,
                    bool tiled = false) {
    options.transa = a_held != Held::kRowWise;
    options.transb = b_held == Held::kRowWise;
    const auto run = [&](Device device) {
      const QuantizedTensor a8 = ValueOf(a.Make(device, a_held, tiled));
      const QuantizedTensor b8 = ValueOf(b.Make(device, b_held, tiled));
      return Multiply(device, a8, b8, out, options, bias);
    };
    EXPECT_EQ(run(kGpu).bytes(), run(kHost).bytes());
  }
};

bool AreBothE5M2(const ScaledKind& a, const ScaledKind& b) {
  return a.format == Format::kE5M2 && b.format == Format::kE5M2;
}

TEST_F(ScaledMatmulCudaTest, EveryMixtureOfFloatScalesIsNative) {
  constexpr Shape kShapes[] = {
      {64, 48, 256}, {256, 384, 512}, {128, 16, 128}, {1024, 256, 640}};
  for (const Shape& s : kShapes) {
    for (const ScaledKind& a_kind : kFloatKinds) {
      for (const ScaledKind& b_kind : kFloatKinds) {
        if (AreBothE5M2(a_kind, b_kind)) continue;
        SCOPED_TRACE(absl::StrCat(a_kind.name, " x ", b_kind.name, " M ", s.m,
                                  " N ", s.n, " K ", s.k));
        const ScaledOperand a(a_kind, s.m, s.k, 1);
        const ScaledOperand b(b_kind, s.n, s.k, 2);
        ExpectAsHost(a, b, TestTensor(DType::kF32, s.m, s.n), {});
        if (s.m > 64) continue;
        for (const DType dtype : kOutDTypes) {
          const TestTensor out = SmallIntegers(dtype, s.m, s.n, 3);
          const TestTensor bias = SmallIntegers(DType::kBF16, 1, s.n, 4);
          MatmulOptions options;
          options.fast_accum = true;
          options.activation = Activation::kRelu;
          ExpectAsHost(a, b, out, options, &bias);
          options.activation = Activation::kNone;
          options.accumulate = true;
          ExpectAsHost(a, b, out, options);
        }
      }
    }
  }
}

// H1, F2
TEST_F(ScaledMatmulCudaTest, TailsAndOddSizes) {
  constexpr Shape kShapes[] = {{1, 1, 1},     {63, 64, 64},    {64, 60, 63},
                               {17, 33, 300}, {130, 129, 129}, {5, 16, 1000},
                               {129, 8, 144}, {4, 4088, 48}};
  for (const Shape& s : kShapes) {
    for (const ScaledKind& a_kind : kFloatKinds) {
      for (const ScaledKind& b_kind : kFloatKinds) {
        if (AreBothE5M2(a_kind, b_kind)) continue;
        SCOPED_TRACE(absl::StrCat(a_kind.name, " x ", b_kind.name, " M ", s.m,
                                  " N ", s.n, " K ", s.k));
        ExpectAsHost(ScaledOperand(a_kind, s.m, s.k, 1),
                     ScaledOperand(b_kind, s.n, s.k, 2),
                     TestTensor(DType::kBF16, s.m, s.n), {});
      }
    }
  }
}

// H2, F6
TEST_F(ScaledMatmulCudaTest, EveryTranspositionEqualsTheHost) {
  const Shape s = {144, 272, 384};
  for (const ScaledKind& a_kind : kFloatKinds) {
    for (const ScaledKind& b_kind : {k128x128Kind, k1x128Kind, kRowwiseKind}) {
      for (const Held a_held :
           {Held::kRowWise, Held::kColumnWise, Held::kOtherWay}) {
        for (const Held b_held :
             {Held::kRowWise, Held::kColumnWise, Held::kOtherWay}) {
          const auto is_square = [](const ScaledKind& kind) {
            return kind.block_rows == kind.block_cols;
          };
          if ((a_held == Held::kOtherWay && !is_square(a_kind)) ||
              (b_held == Held::kOtherWay && !is_square(b_kind))) {
            continue;
          }
          SCOPED_TRACE(absl::StrCat(a_kind.name, " x ", b_kind.name, " ",
                                    static_cast<int>(a_held), " ",
                                    static_cast<int>(b_held)));
          ExpectAsHost(ScaledOperand(a_kind, s.m, s.k, 1),
                       ScaledOperand(b_kind, s.n, s.k, 2),
                       TestTensor(DType::kF32, s.m, s.n), {}, nullptr, a_held,
                       b_held);
        }
      }
    }
  }
}

// FP8 tensor cores keep at least 13 bits of a sum.
TEST_F(ScaledMatmulCudaTest, RandomDataWithinTheAccumulatorsError) {
  const Shape s = {128, 256, 1024};
  for (const ScaledKind& a_kind : kFloatKinds) {
    for (const ScaledKind& b_kind : kFloatKinds) {
      if (AreBothE5M2(a_kind, b_kind)) continue;
      SCOPED_TRACE(absl::StrCat(a_kind.name, " x ", b_kind.name));
      const ScaledOperand a(a_kind, s.m, s.k, 1, RandomValue, false);
      const ScaledOperand b(b_kind, s.n, s.k, 2, RandomValue, false);
      MatmulOptions options;
      options.transb = true;
      const TestTensor out(DType::kF32, s.m, s.n);
      const auto run = [&](Device device) {
        const QuantizedTensor a8 = ValueOf(a.Make(device));
        const QuantizedTensor b8 = ValueOf(b.Make(device));
        return Multiply(device, a8, b8, out, options);
      };
      const TestTensor want = run(kHost);
      const TestTensor got = run(kGpu);
      // |code| <= 1 and scales <= 1.01.
      for (int64_t r = 0; r < s.m; ++r) {
        for (int64_t c = 0; c < s.n; ++c) {
          ASSERT_NEAR(got.at(r, c), want.at(r, c), 0x1p-13 * 1.03 * 1024);
        }
      }
    }
  }
}

TEST_F(ScaledMatmulCudaTest, WithoutEmulateTheChipAndTheSwitchAreNamed) {
  DeviceTensor out =
      ValueOf(DeviceTensor::Of(kGpu, TestTensor(DType::kF32, 32, 32)));
  MatmulOptions options;
  options.transb = true;
  const auto refused = [&](const MatmulOperand& a, const MatmulOperand& b,
                           const std::string& pair) {
    EXPECT_THAT(Matmul(a, b, out.view(), options, stream_),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr("M=32 N=32 K=128"), HasSubstr(pair),
                               HasSubstr("compute capability 9.0"),
                               HasSubstr("emulate"))));
  };
  const QuantizedTensor mx =
      ValueOf(ScaledOperand(kMxfp8Kind, 32, 128, 1).Make(kGpu));
  const QuantizedTensor nv =
      ValueOf(ScaledOperand(kNvfp4Kind, 32, 128, 1).Make(kGpu));
  const QuantizedTensor block =
      ValueOf(ScaledOperand(k1x128Kind, 32, 128, 1).Make(kGpu));
  DeviceTensor plain =
      ValueOf(DeviceTensor::Of(kGpu, SmallIntegers(DType::kBF16, 32, 128, 1)));
  refused(mx, mx, "mxfp8 E4M3 x mxfp8 E4M3");
  refused(nv, nv, "nvfp4 E2M1 x nvfp4 E2M1");
  refused(block, mx, "block E4M3 x mxfp8 E4M3");
  refused(plain.view(), block, "bfloat16 x block E4M3");
}

TEST_F(ScaledMatmulCudaTest, EmulationIsExactWhereTheFormatsAre) {
  constexpr Shape kShapes[] = {
      {64, 48, 256}, {1, 1, 1}, {17, 33, 300}, {130, 129, 131}};
  std::vector<ScaledKind> kinds(std::begin(kMicroKinds), std::end(kMicroKinds));
  kinds.push_back(k128x128Kind);
  kinds.push_back(kRowwiseKind);
  kinds.push_back(kCurrentKind);
  MatmulOptions options;
  options.emulate = true;
  for (const Shape& s : kShapes) {
    for (const ScaledKind& a_kind : kinds) {
      for (const ScaledKind& b_kind : kMicroKinds) {
        SCOPED_TRACE(absl::StrCat(a_kind.name, " x ", b_kind.name, " M ", s.m,
                                  " N ", s.n, " K ", s.k));
        const ScaledOperand a(a_kind, s.m, s.k, 1);
        const ScaledOperand b(b_kind, s.n, s.k, 2);
        ExpectAsHost(a, b, TestTensor(DType::kBF16, s.m, s.n), options);
        ExpectAsHost(b, a, TestTensor(DType::kF32, s.n, s.m), options);
        ExpectAsHost(a, b, TestTensor(DType::kF32, s.m, s.n), options, nullptr,
                     Held::kColumnWise, Held::kColumnWise);
        if (a_kind.type != ScaleType::kFloat) {
          ExpectAsHost(a, b, TestTensor(DType::kF32, s.m, s.n), options,
                       nullptr, Held::kRowWise, Held::kColumnWise,
                       /*tiled=*/true);
        }
        const TestTensor bias = SmallIntegers(DType::kF32, 1, s.n, 4);
        MatmulOptions accumulate = options;
        accumulate.accumulate = true;
        ExpectAsHost(a, b, SmallIntegers(DType::kF32, s.m, s.n, 3), accumulate,
                     &bias);
      }
    }
  }
}

TEST_F(ScaledMatmulCudaTest, EmulationInSeveralTiles) {
  // One more than a tile in each direction.
  MatmulOptions options;
  options.emulate = true;
  const TestTensor bias = SmallIntegers(DType::kBF16, 1, 8, 4);
  ExpectAsHost(ScaledOperand(kMxfp8Kind, 4100, 8200, 1),
               ScaledOperand(kNvfp4Kind, 8, 8200, 2),
               TestTensor(DType::kF32, 4100, 8), options, &bias);
  ExpectAsHost(ScaledOperand(kRowwiseKind, 8, 8208, 1),
               ScaledOperand(kMxfp8SquareKind, 4104, 8208, 2),
               TestTensor(DType::kBF16, 8, 4104), options, nullptr,
               Held::kRowWise, Held::kOtherWay);
}

TEST_F(ScaledMatmulCudaTest, EmulationWithinTheStatedBound) {
  const Shape s = {96, 80, 512};
  std::vector<ScaledKind> kinds(std::begin(kMicroKinds), std::end(kMicroKinds));
  kinds.insert(kinds.end(), std::begin(kFloatKinds), std::end(kFloatKinds));
  const auto inexact = [](const ScaledKind& kind) {
    return kind.scaling == Scaling::kBlock ? 0x1p-8 : 0.0;
  };
  for (const ScaledKind& a_kind : kinds) {
    for (const ScaledKind& b_kind : kMicroKinds) {
      SCOPED_TRACE(absl::StrCat(a_kind.name, " x ", b_kind.name));
      const ScaledOperand a(a_kind, s.m, s.k, 1, RandomValue, false);
      const ScaledOperand b(b_kind, s.n, s.k, 2, RandomValue, false);
      MatmulOptions options;
      options.transb = options.emulate = true;
      const TestTensor out(DType::kF32, s.m, s.n);
      const auto run = [&](Device device) {
        const QuantizedTensor a8 = ValueOf(a.Make(device));
        const QuantizedTensor b8 = ValueOf(b.Make(device));
        return Multiply(device, a8, b8, out, options);
      };
      const TestTensor want = run(kHost);
      const TestTensor got = run(kGpu);
      const double relative =
          static_cast<double>(s.k + 4) * 0x1p-23 + inexact(a_kind);
      for (int64_t m = 0; m < s.m; ++m) {
        for (int64_t n = 0; n < s.n; n += 7) {
          double magnitude = 0;
          for (int64_t k = 0; k < s.k; ++k) {
            magnitude += std::abs(a.Value(m, k) * b.Value(n, k));
          }
          ASSERT_NEAR(got.at(m, n), want.at(m, n), relative * magnitude)
              << m << " " << n;
        }
      }
    }
  }
}

TEST_F(ScaledMatmulCudaTest, PlainOperandsAreEmulatedToo) {
  MatmulOptions options;
  options.transb = options.emulate = true;
  for (const ScaledKind& kind :
       {kCurrentKind, kRowwiseKind, k1x128Kind, kMxfp8Kind, kNvfp4Kind}) {
    for (const DType dtype : kOutDTypes) {
      SCOPED_TRACE(absl::StrCat(kind.name, " x ", Name(dtype)));
      const ScaledOperand a(kind, 40, 96, 1);
      const TestTensor b = SmallIntegers(dtype, 24, 96, 2);
      const auto run = [&](Device device) {
        DeviceTensor plain = ValueOf(DeviceTensor::Of(device, b));
        const QuantizedTensor a8 = ValueOf(a.Make(device));
        return Multiply(device, a8, plain.view(),
                        TestTensor(DType::kF32, 40, 24), options);
      };
      EXPECT_EQ(run(kGpu).bytes(), run(kHost).bytes());
    }
  }
}

TEST_F(ScaledMatmulCudaTest, CapturedProductsReplayToTheSameBits) {
  const ScaledOperand rows(kRowwiseKind, 128, 256, 1);
  const ScaledOperand blocks(k128x128Kind, 64, 256, 2);
  const ScaledOperand micro(kMxfp8Kind, 64, 256, 3);
  const QuantizedTensor a = ValueOf(rows.Make(kGpu));
  const QuantizedTensor b = ValueOf(blocks.Make(kGpu));
  const QuantizedTensor c = ValueOf(micro.Make(kGpu));
  MatmulOptions options;
  options.transb = options.emulate = true;
  std::vector<DeviceTensor> outs;
  for (int i = 0; i < 2; ++i) {
    outs.push_back(
        ValueOf(DeviceTensor::Of(kGpu, TestTensor(DType::kF32, 128, 64))));
  }
  const auto enqueue = [&] {
    ASSERT_THAT(Matmul(a, b, outs[0].view(), options, stream_), IsOk());
    ASSERT_THAT(Matmul(a, c, outs[1].view(), options, stream_), IsOk());
  };
  enqueue();
  const TestTensor want[] = {ValueOf(outs[0].Download(stream_)),
                             ValueOf(outs[1].Download(stream_))};
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
  for (int replay = 0; replay < 10; ++replay) {
    for (DeviceTensor& out : outs) {
      ASSERT_THAT(FillBytes(kGpu, out.view().data, 0xFF, 128 * 64 * 4, stream_),
                  IsOk());
    }
    ASSERT_EQ(cudaGraphLaunch(exec.get(), cuda_stream_.get()), cudaSuccess);
    for (size_t i = 0; i < 2; ++i) {
      ASSERT_EQ(ValueOf(outs[i].Download(stream_)).bytes(), want[i].bytes());
    }
  }
}

// What is brought to a chip that takes tiles: the bytes that the functions of
// gemm/operand_layout.h say, made by kernels.
TEST_F(ScaledMatmulCudaTest, TilesAndHalvesAreThoseOfTheHost) {
  constexpr int64_t kRows = 140, kCols = 112;
  for (const ScaledKind& kind : kMicroKinds) {
    SCOPED_TRACE(kind.name);
    const auto bytes_on = [&](Device device) {
      const QuantizedTensor tensor =
          ValueOf(ScaledOperand(kind, kRows, kCols, 1).Make(device));
      const internal::MatmulInput input =
          ValueOf(internal::MakeInput(tensor, "a", /*transpose=*/false, true));
      internal::TileScalesArguments tiles;
      tiles.grid = input.grid;
      tiles.block = input.grid.col_block();
      tiles.rows = kRows;
      tiles.cols = kCols / tiles.block + (kCols % tiles.block != 0 ? 1 : 0);
      tiles.bytes = internal::ScaleModeBytes(
          kind.scaling == Scaling::kMxfp8 ? internal::ScaleMode::kVec32Ue8m0
                                          : internal::ScaleMode::kVec16Ue4m3,
          kRows, kCols);
      internal::PackHalvesArguments halves;
      if (kind.format == Format::kE2M1) {
        halves.source = input.values.data;
        halves.rows = kRows;
        halves.cols = kCols;
        halves.row_stride = input.values.row_stride;
        halves.padded_rows = kRows + 4;
        halves.padded_cols = 128;
      }
      const int64_t half_bytes = halves.padded_rows * halves.padded_cols / 2;
      std::vector<uint8_t> bytes(static_cast<size_t>(tiles.bytes + half_bytes));
      if (device == kHost) {
        for (int64_t i = 0; i < tiles.bytes; ++i) {
          bytes[static_cast<size_t>(i)] = internal::TiledScale(tiles, i);
        }
        for (int64_t i = 0; i < half_bytes; ++i) {
          bytes[static_cast<size_t>(tiles.bytes + i)] =
              internal::PackedHalves(halves, i);
        }
        return bytes;
      }
      Buffer memory = ValueOf(Upload(device, bytes));
      tiles.destination = memory.as<uint8_t>();
      halves.destination = memory.as<uint8_t>() + tiles.bytes;
      EXPECT_THAT(TileScalesOnDevice(tiles, cuda_stream_.get()), IsOk());
      EXPECT_THAT(PackHalvesOnDevice(halves, cuda_stream_.get()), IsOk());
      EXPECT_THAT(CopyToHost(device, bytes.data(), memory.data(), bytes.size(),
                             stream_),
                  IsOk());
      return bytes;
    };
    EXPECT_EQ(bytes_on(kGpu), bytes_on(kHost));
  }
}

}  // namespace
}  // namespace scalekeeper
