// The block kernels on a GPU against the host's: every byte that a call may
// write, the padding of tiled scales and guards around each buffer included.
// What a quantizer can choose on the GPU at hand is in
// block_quantizer_cuda_test.cc, large tensors in block_huge_cuda_test.cc; here
// are the rest: tiled scales, amaxes that come from elsewhere, graphs.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/cuda/handles_cuda.h"
#include "gtest/gtest.h"
#include "numerics/bits.h"
#include "quantizer/block_kernels.h"
#include "tests/amax/cuda_state_testing.h"
#include "tests/quantizer/block_kernels_cuda_testing.h"
#include "tests/testing/device_bytes.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/test_tensor.h"

namespace scalekeeper {
namespace {

constexpr Usages kUses[] = {{true, false}, {false, true}, {true, true}};

TEST_F(BlockKernelsCudaTest, EveryByteIsTheHosts) {  // D13
  constexpr std::pair<int64_t, int64_t> kShapes[] = {
      {1, 1},     {15, 17},   {17, 15}, {127, 129}, {128, 256}, {384, 128},
      {144, 272}, {300, 100}, {16, 48}, {257, 128}, {33, 272}};
  for (const Scheme& scheme : AllSchemes()) {
    for (const auto& [rows, cols] : kShapes) {
      if (scheme.hadamard && rows % 16 != 0) continue;
      for (Usages uses : kUses) {
        Compare({scheme, uses, DType::kBF16, rows, cols});
      }
    }
  }
}

TEST_F(BlockKernelsCudaTest, EveryDTypeAndLayout) {
  for (const Scheme& scheme : AllSchemes()) {
    for (DType dtype : kHighPrecisionDTypes) {
      for (Fill fill : {Fill::kWild, Fill::kWide}) {
        Compare(
            {scheme, kBoth, dtype, 160, 208, Layout::kContiguous, fill, false});
      }
      Compare({scheme, kBoth, dtype, 160, 208, Layout::kContiguous, Fill::kWild,
               /*count=*/true});
    }
    for (Layout layout : kLayouts) {
      Compare({scheme, kBoth, DType::kBF16, 144, 80, layout});
    }
  }
}

TEST_F(BlockKernelsCudaTest, LargerShapes) {
  for (const Scheme& scheme : AllSchemes()) {
    if (!scheme.hadamard) Compare({scheme, kBoth, DType::kBF16, 1000, 300});
  }
  for (const Scheme& scheme : PlainSchemes(Format::kE4M3)) {
    const Case c = {scheme, kBoth, DType::kBF16, 4096, 4096};
    Compare(c, FillTensor(c.fill, c.dtype, c.rows, c.cols), /*decode=*/false);
  }
  for (const Scheme& scheme : TileSchemes()) {
    Compare({scheme, kBoth, DType::kBF16, 1024, 2048});
  }
}

// As after a reduction over ranks: they are larger, or smaller, than the
// tensor's own.
TEST_F(BlockKernelsCudaTest, AmaxesFromElsewhereAreTaken) {
  for (const Scheme& scheme : AllSchemes()) {
    if (!scheme.line && scheme.type != ScaleType::kE4M3) continue;
    for (const auto& [rows, cols] :
         {std::pair<int64_t, int64_t>{160, 208}, {48, 33}}) {
      Case c = {scheme, kBoth, DType::kBF16, rows, cols};
      c.given = true;
      Compare(c);
    }
  }
}

TEST_F(BlockKernelsCudaTest, RowsInOnePassAreThoseOfTwo) {
  const Scheme line = PlainSchemes(Format::kE4M3)[0];
  for (DType dtype : kHighPrecisionDTypes) {
    for (int64_t cols : {1, 16, 33, 272, 4096, 16384, 32768, 32784}) {
      Case c = {line, {true, false}, dtype, 33, cols};
      SCOPED_TRACE(NameOf(c));
      const TestTensor x = FillTensor(c.fill, dtype, c.rows, cols);
      Rig gpu(c, kGpu, x);
      Rig host(c, Device::Host(), x);
      gpu.QuantizeRows(Stream());
      host.Quantize(Stream());
      ExpectSame(gpu, host);
    }
  }
}

// Over all tiles, every element of a tile is the edge value once; NaN and the
// infinities change the scale of all that is beside them.
TEST_F(BlockKernelsCudaTest, EdgeValuesInEveryLane) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kMax = std::numeric_limits<float>::max();
  constexpr int64_t kSide = 128;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float subnormal = FloatFromBits(0x00010000u);  // of bfloat16, too
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    for (float edge : {0.0f, -0.0f, kInf, -kInf, nan, subnormal, kMax, -kMax}) {
      SCOPED_TRACE(absl::StrCat("edge value ", edge));
      const TestTensor x = TestTensor::Of(
          dtype, kSide, kSide * kSide, [&](int64_t r, int64_t c) {
            return (r + c / kSide) % kSide == c % kSide
                       ? edge
                       : FillValue(Fill::kPlain, r, c);
          });
      for (const Scheme& scheme : TileSchemes()) {
        Compare({scheme, kBoth, dtype, kSide, kSide * kSide}, x,
                /*decode=*/false);
      }
    }
  }
}

TEST_F(BlockKernelsCudaTest, NothingIsWrittenWhereRunIfSaysNo) {
  for (const Scheme& scheme : AllSchemes()) {
    for (const auto& [rows, cols] :
         {std::pair<int64_t, int64_t>{128, 256}, {48, 33}}) {
      for (bool unless : {false, true}) {
        Case c = {scheme, kBoth, DType::kBF16, rows, cols};
        c.count = true;
        c.given = true;
        SCOPED_TRACE(NameOf(c));
        Rig rig(c, kGpu, FillTensor(c.fill, c.dtype, rows, cols));
        Words words = rig.words();
        words.unless = unless ? 1 : 0;
        words.only_if = unless ? 1 : 0;
        rig.Set(words);
        const auto before = rig.Written();
        rig.Quantize(Stream());
        EXPECT_TRUE(rig.Written() == before);
      }
    }
  }
}

// Scales of whole rows and of tensors, and nothing else.
TEST_F(BlockKernelsCudaTest, TensorsWithoutElements) {
  for (Scheme scheme : AllSchemes()) {
    scheme.spec.current.amax_epsilon = scheme.line ? 7.0f : 0.0f;
    for (const auto& [rows, cols] :
         {std::pair<int64_t, int64_t>{0, 0}, {0, 256}, {48, 0}, {300, 0}}) {
      if (scheme.hadamard && rows % 16 != 0) continue;
      for (Usages uses : kUses) {
        for (bool given : {false, true}) {
          Case c = {scheme, uses, DType::kBF16, rows, cols};
          c.given = given;
          Compare(c, FillTensor(c.fill, c.dtype, rows, cols),
                  /*decode=*/false);
          if (!scheme.line || uses.column_wise) continue;
          SCOPED_TRACE(NameOf(c));
          const TestTensor x(c.dtype, rows, cols);
          Rig gpu(c, kGpu, x);
          Rig host(c, Device::Host(), x);
          gpu.QuantizeRows(Stream());
          host.QuantizeRows(Stream());
          ExpectSame(gpu, host);
        }
      }
    }
  }
}

// Large finite values become infinite in the transform, on both sides.
TEST_F(BlockKernelsCudaTest, AnInfinityThatTheTransformMakesIsSeen) {
  for (DType dtype : {DType::kF16, DType::kF32, DType::kBF16}) {
    const float top = dtype == DType::kF16 ? 65504.0f : std::ldexp(1.0f, 127);
    for (const auto& [rows, cols] :
         {std::pair<int64_t, int64_t>{128, 256}, {48, 33}}) {
      TestTensor x = TestTensor::Of(
          dtype, rows, cols, [&, rows = rows](int64_t r, int64_t) {
            if (r < rows - 16) return 1.0f;
            return (0xD7E8 >> (r % 16) & 1) != 0 ? -top : top;
          });
      for (const bool large : {true, false}) {
        TestTensor plain = FillTensor(Fill::kPlain, dtype, rows, cols);
        TestTensor& values = large ? x : plain;
        uint32_t want = 0;
        for (Device device : {Device::Host(), kGpu}) {
          DeviceBytes bytes(device, values.bytes());
          DeviceBytes words(device, std::vector<uint8_t>(12, 0));
          kernels::TensorAmaxWords amaxes;
          amaxes.row_wise = words.as<uint32_t>();
          amaxes.column_wise = words.as<uint32_t>() + 1;
          amaxes.non_finite = words.as<uint32_t>() + 2;
          ASSERT_THAT(kernels::TensorAmaxes(
                          OnDevice(values.view(), device, bytes.as<uint8_t>()),
                          /*hadamard=*/true, amaxes, {}, Stream()),
                      IsOk());
          uint32_t found[3];
          const std::vector<uint8_t> got = words.Download();
          std::memcpy(found, got.data(), sizeof(found));
          EXPECT_EQ(found[1] >= kFloatInfBits, large);
          EXPECT_EQ(found[2], large ? kFloatInfBits : 0u);
          if (device == Device::Host()) want = found[0];
          EXPECT_EQ(found[0], want);
        }
      }
    }
  }
}

// A replay measures and casts what x holds then.
TEST_F(BlockKernelsCudaTest, GraphsReplayToTheSameBytes) {
  absl::StatusOr<CudaStream> stream = CreateCudaStream();
  ASSERT_THAT(stream.status(), IsOk());
  for (const Scheme& scheme : AllSchemes()) {
    for (const auto& [rows, cols] :
         {std::pair<int64_t, int64_t>{128, 256}, {48, 33}}) {
      const Case c = {scheme, kBoth, DType::kBF16, rows, cols};
      SCOPED_TRACE(NameOf(c));
      Rig gpu(c, kGpu, FillTensor(Fill::kPlain, c.dtype, rows, cols));
      const CudaGraphExec graph =
          Capture(*stream, [&] { gpu.Quantize(AsStream(*stream)); });
      EXPECT_EQ(gpu.words().amax, 0u) << "a capture runs nothing";
      const auto replay = [&] {
        ASSERT_EQ(cudaGraphLaunch(graph.get(), stream->get()), cudaSuccess);
        ASSERT_EQ(cudaStreamSynchronize(stream->get()), cudaSuccess);
      };
      replay();
      const TestTensor x = FillTensor(Fill::kWide, c.dtype, rows, cols);
      gpu.SetX(x);
      gpu.Set(Words());
      replay();
      Rig host(c, Device::Host(), x);
      host.Quantize(Stream());
      ExpectSame(gpu, host);
    }
  }
}

}  // namespace
}  // namespace scalekeeper
