// The tables of NVFP4, and stochastic rounding against its definition.
#include "numerics/nvfp4.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "numerics/random.h"
#include "tests/testing/oracle.h"

namespace scalekeeper {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST(Nvfp4ScaleTest, Table) {
  struct Row {
    float tensor, block, tensor_scale, block_scale;
  };
  const Row rows[] = {
      {1, 1, 2688, 448},
      {1, 0.5f, 2688, 224},
      {6, 6, 448, 448},
      {2688, 6, 1, 1},
      {12, 0.01f, 224, 0.375f},
      {100, 0.001f, 26.88f, 0.00390625f},
      {0, 0, 1, 0},
      {5376, 5376, 0.5f, 448},  // E5
  };
  for (const Row& row : rows) {
    const float scale = Nvfp4TensorScale(AmaxBits(row.tensor), false);
    EXPECT_EQ(scale, row.tensor_scale) << row.tensor;
    const uint8_t code = Nvfp4BlockScale(AmaxBits(row.block), scale);
    EXPECT_EQ(oracle::Decode(oracle::Kind::kE4M3, code), row.block_scale)
        << row.tensor << " " << row.block;
  }
}

TEST(Nvfp4ScaleTest, FourOverSixHas256) {
  EXPECT_EQ(Nvfp4TensorScale(AmaxBits(1.0f), true), 1536.0f);
  EXPECT_EQ(Nvfp4WiderBlockScale(0x38), 0x3C);  // 1 -> 1.5
  EXPECT_EQ(Nvfp4WiderBlockScale(0x78), 0x7C);  // 256 -> 384
  EXPECT_EQ(Nvfp4WiderBlockScale(0x7C), 0x7E);  // 384 -> 576 saturates
  EXPECT_EQ(Nvfp4WiderBlockScale(0), 0);
}

TEST(Nvfp4ScaleTest, NonFiniteAndTiny) {
  EXPECT_EQ(Nvfp4TensorScale(AmaxBits(kInf), false), 1.0f);
  EXPECT_EQ(Nvfp4TensorScale(AmaxBits(kNaN), false), 1.0f);
  EXPECT_EQ(Nvfp4TensorScale(1, false), kFloatMax);
  EXPECT_EQ(Nvfp4BlockScale(AmaxBits(kNaN), 1.0f), 0x7F);
  EXPECT_EQ(Nvfp4BlockScale(AmaxBits(kInf), 1.0f), 0x7E);
  EXPECT_EQ(Nvfp4Scale(0, 1.0f), 0.0f);
  EXPECT_EQ(Nvfp4Scale(1, FloatFromBits(1)), kFloatMax);
  EXPECT_TRUE(std::isnan(Nvfp4Scale(0x7F, 1.0f)));
}

TEST(Nvfp4BlockTest, ReferenceBlock) {  // E1
  const float scale = Nvfp4TensorScale(AmaxBits(2688.0f), false);
  EXPECT_EQ(scale, 1.0f);
  const uint8_t block = Nvfp4BlockScale(AmaxBits(1.0f), scale);
  EXPECT_EQ(block, 0x23);
  const float factor = Nvfp4Scale(block, 1.0f / scale);
  EXPECT_FLOAT_EQ(factor, 5.818182f);
  const float back = Nvfp4ScaleInverse(block, 1.0f / scale);
  EXPECT_EQ(back, 0.171875f);
  const float x[] = {1, 0.5f, -0.25f, 0};
  const int codes[] = {7, 5, 0xB, 0};
  const float decoded[] = {1.03125f, 0.515625f, -0.2578125f, 0};
  for (int i = 0; i < 4; ++i) {
    const uint8_t code = EncodeE2M1(x[i] * factor);
    EXPECT_EQ(code, codes[i]);
    EXPECT_EQ(DecodeE2M1(code) * back, decoded[i]);
  }
}

TEST(E2M1Test, TiesAndTheTopBinade) {  // E7
  const float x[] = {0.25f, 0.75f, 1.25f,   1.75f, 2.5f,
                     3.5f,  5,     5.0001f, 7,     -0.25f};
  const int codes[] = {0, 2, 2, 4, 4, 6, 6, 7, 7, 8};
  for (size_t i = 0; i < std::size(x); ++i) {
    EXPECT_EQ(EncodeE2M1(x[i]), codes[i]) << x[i];
  }
}

TEST(StochasticRoundingTest, ProbabilityIsTheDistanceToTheLowerNeighbour) {
  const float magnitudes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (int lower = 0; lower < 7; ++lower) {
    const float gap = magnitudes[lower + 1] - magnitudes[lower];
    for (int eighth = 0; eighth < 8; ++eighth) {
      const float x =
          magnitudes[lower] + gap * static_cast<float>(eighth) / 8.0f;
      // Up exactly below eighth / 8 of all draws.
      const uint64_t threshold = uint64_t{static_cast<uint32_t>(eighth)} << 29;
      for (const uint64_t draw :
           {uint64_t{0}, threshold - 1, threshold, uint64_t{0xFFFFFFFF}}) {
        if (draw > 0xFFFFFFFF) continue;
        const int want = lower + (draw < threshold ? 1 : 0);
        const uint32_t d = static_cast<uint32_t>(draw);
        EXPECT_EQ(EncodeE2M1Stochastic(x, d), want) << x << " " << draw;
        EXPECT_EQ(EncodeE2M1Stochastic(-x, d), want | 8) << x << " " << draw;
      }
    }
  }
}

TEST(StochasticRoundingTest, EdgesDoNotDependOnTheDraw) {
  for (const uint32_t draw : {0u, 0x80000000u, 0xFFFFFFFFu}) {
    for (int code = 0; code < 16; ++code) {
      const float x = static_cast<float>(
          oracle::Decode(oracle::Kind::kE2M1, static_cast<uint32_t>(code)));
      EXPECT_EQ(EncodeE2M1Stochastic(x, draw), code);
    }
    EXPECT_EQ(EncodeE2M1Stochastic(6.5f, draw), 7);
    EXPECT_EQ(EncodeE2M1Stochastic(kInf, draw), 7);
    EXPECT_EQ(EncodeE2M1Stochastic(-kInf, draw), 15);
    EXPECT_EQ(EncodeE2M1Stochastic(kNaN, draw), 7);
    EXPECT_EQ(EncodeE2M1Stochastic(-0.0f, draw), 8);
  }
}

TEST(StochasticRoundingTest, IsUnbiased) {
  const RandomKey key = MakeRandomKey(3, "m/grad", 6);
  for (const float x : {0.1f, -0.3f, 0.9f, 1.3f, -2.2f, 3.7f, 4.5f, -5.9f}) {
    constexpr int64_t kQuads = 25000;
    double sum = 0;
    for (int64_t quad = 0; quad < kQuads; ++quad) {
      for (const uint32_t draw : RandomDraws(key, 11, quad).words) {
        sum += static_cast<double>(DecodeE2M1(EncodeE2M1Stochastic(x, draw)));
      }
    }
    // The deviation of one draw is at most half a gap (1), of the mean 1/316.
    EXPECT_NEAR(sum / (4 * kQuads), x, 5.0 / 316) << x;
  }
}

}  // namespace
}  // namespace scalekeeper
