// Faults that others reported of MXFP8 and NVFP4, as small inputs and right
// values, and the tables of the numerics document.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "quantizer/block_kernels.h"
#include "quantizer/block_quantizer.h"
#include "tests/quantizer/block_testing.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();
constexpr Usages kRow = {true, false};
constexpr Usages kBoth = {true, true};

float Next(float x) { return std::nextafter(x, kInf); }

// Byte and largest code of a block of 32 with this amax.
std::pair<uint32_t, int> MxBlock(float amax, const Policy& policy) {
  std::vector<float> values(32, 0.0f);
  values[7] = amax;
  TestTensor x = TestTensor::Row(DType::kF32, values);
  BlockRig rig(policy, kRow);
  const QuantizedTensor q = rig.Quantize(x);
  return {StoredScales(*q.row_wise)[0], UnpackedCodes(q, false)[7]};
}

TEST(Mxfp8CasesTest, RoundsUpAtTheEdge) {  // D1
  using P = std::pair<uint32_t, int>;
  struct Row {
    float amax;
    P want;
  };
  for (const Row& row : std::vector<Row>{{1, {119, 0x78}},
                                         {256, {127, 0x78}},
                                         {447.99997f, {127, 0x7E}},
                                         {448, {127, 0x7E}},
                                         {448.00003f, {128, 0x76}},
                                         {480, {128, 0x77}},
                                         {511, {128, 0x78}},
                                         {512, {128, 0x78}},
                                         {0.001953125f, {110, 0x78}}}) {
    EXPECT_EQ(MxBlock(row.amax, Mxfp8Policy()), row.want) << row.amax;
  }
  const Policy floor = Mxfp8Policy(ScaleRounding::kOcpFloor);
  EXPECT_EQ(MxBlock(480, floor), P(127, 0x7E));
  EXPECT_EQ(MxBlock(511, floor), P(127, 0x7E));
}

TEST(Mxfp8CasesTest, Table) {
  const auto byte = [](float amax) {
    return MxBlock(amax, Mxfp8Policy()).first;
  };
  EXPECT_EQ(byte(0), 0u);
  EXPECT_EQ(byte(1.75f), 0x77u);
  EXPECT_EQ(byte(Next(1.75f)), 0x78u);
  EXPECT_EQ(byte(449), 0x80u);
  EXPECT_EQ(byte(896), 0x80u);
  EXPECT_EQ(byte(kMax), 0xF7u);
  EXPECT_EQ(byte(469762080.0f), 148u);
  for (int k = -100; k <= 100; ++k) {
    EXPECT_EQ(byte(std::ldexp(448.0f, k)), static_cast<uint32_t>(127 + k));
  }
  EXPECT_EQ(MxBlock(Next(1.75f), Mxfp8Policy(ScaleRounding::kOcpFloor)).first,
            0x77u);
}

TEST(Mxfp8CasesTest, EveryScaleByteDecodes) {  // D5
  BlockRig rig(Mxfp8Policy(), kRow);
  TestTensor x = TestTensor::Row(DType::kF32, std::vector<float>(32, 1.0f));
  QuantizedTensor q = rig.Quantize(x);
  std::fill_n(q.row_wise->codes.as<uint8_t>(), 32, 0x38);
  const auto decoded = [&](uint8_t byte) {
    *q.row_wise->scale_inv.as<uint8_t>() = byte;
    return rig.Dequantize(q)[31];
  };
  EXPECT_EQ(oracle::BitsOfFloat(decoded(0)), 0x00400000u);
  EXPECT_EQ(decoded(1), std::ldexp(1.0f, -126));
  EXPECT_EQ(decoded(127), 1.0f);
  EXPECT_EQ(decoded(254), std::ldexp(1.0f, 127));
  EXPECT_TRUE(std::isnan(decoded(255)));
}

TEST(Mxfp8CasesTest, NonFiniteBlocks) {  // D7
  std::vector<float> values(128, 1.0f);
  values[3] = kInf;
  values[64 + 9] = kNaN;
  TestTensor x = TestTensor::Row(DType::kF32, values);
  BlockRig rig(Mxfp8Policy(), kRow);
  const QuantizedTensor q = rig.Quantize(x);
  EXPECT_THAT(StoredScales(*q.row_wise), ElementsAre(254, 119, 255, 119));
  const std::vector<uint8_t> codes = UnpackedCodes(q, false);
  const std::vector<float> back = rig.Dequantize(q);
  for (int i = 0; i < 128; ++i) {
    if (i < 32) {
      EXPECT_EQ(codes[i], i == 3 ? 0x7E : 0);
      EXPECT_EQ(back[i], i == 3 ? kInf : 0);
    } else if (i / 32 == 2) {
      EXPECT_TRUE(std::isnan(back[i]));
    } else {
      EXPECT_EQ(back[i], 1.0f);
    }
  }
  // NaN is the larger: the flag is raised for both.
  EXPECT_GT(rig.amax, 0x7F800000u);
  EXPECT_EQ(rig.counters.non_finite, 2u);
}

TEST(Mxfp8CasesTest, ZeroBlocks) {  // D8
  std::vector<float> values(64, 0.0f);
  values[63] = -0.0f;
  TestTensor x = TestTensor::Row(DType::kF32, values);
  BlockRig rig(Mxfp8Policy(), kRow);
  const QuantizedTensor q = rig.Quantize(x);
  EXPECT_THAT(StoredScales(*q.row_wise), ElementsAre(0, 0));
  const std::vector<uint8_t> codes = UnpackedCodes(q, false);
  for (int i = 0; i < 63; ++i) EXPECT_EQ(codes[i], 0);
  EXPECT_EQ(codes[63], 0x80);
  EXPECT_THAT(rig.Dequantize(q), Each(0.0f));
}

TEST(Mxfp8CasesTest, TheModeIsTheRecipes) {  // D9
  EXPECT_EQ(MxBlock(560, Mxfp8Policy()), (std::pair<uint32_t, int>(128, 0x79)));
}

// A block of 16 with its amax in the middle, and the amax of the tensor in
// another row.
struct Nvfp4Block {
  float tensor_scale_inv;
  uint32_t byte;
  std::vector<uint8_t> codes;
  std::vector<float> back;
};
Nvfp4Block QuantizeNvfp4(std::vector<float> block, float tensor_amax) {
  block.resize(16, 0.0f);
  TestTensor x(DType::kF32, 2, 16);
  for (int c = 0; c < 16; ++c) {
    x.Set(0, c, block[static_cast<size_t>(c)]);
    x.Set(1, c, c == 0 ? tensor_amax : 0.0f);
  }
  BlockRig rig(Nvfp4Policy(), kRow);
  const QuantizedTensor q = rig.Quantize(x);
  Nvfp4Block result;
  result.tensor_scale_inv = *q.row_wise->scales.tensor_scale_inv;
  result.byte = StoredScales(*q.row_wise)[0];
  result.codes = UnpackedCodes(q, false);
  result.codes.resize(16);
  result.back = rig.Dequantize(q);
  result.back.resize(16);
  return result;
}

TEST(Nvfp4CasesTest, TwoLevels) {  // E1
  const Nvfp4Block got = QuantizeNvfp4({1, 0.5f, -0.25f, 0}, 2688);
  EXPECT_EQ(got.tensor_scale_inv, 1.0f);
  EXPECT_EQ(got.byte, 0x23u);
  EXPECT_THAT(std::vector<uint8_t>(got.codes.begin(), got.codes.begin() + 4),
              ElementsAre(7, 5, 0xB, 0));
  EXPECT_THAT(std::vector<float>(got.back.begin(), got.back.begin() + 4),
              ElementsAre(1.03125f, 0.515625f, -0.2578125f, 0.0f));
}

TEST(Nvfp4CasesTest, Table) {
  struct Row {
    float tensor, block, scale, stored;
  };
  for (const Row& row : std::vector<Row>{{1, 1, 2688, 448},
                                         {1, 0.5f, 2688, 224},
                                         {6, 6, 448, 448},
                                         {2688, 6, 1, 1},
                                         {12, 0.01f, 224, 0.375f},
                                         {100, 0.001f, 26.88f, 0.00390625f}}) {
    const Nvfp4Block got = QuantizeNvfp4({row.block}, row.tensor);
    EXPECT_EQ(got.tensor_scale_inv, 1.0f / row.scale);
    EXPECT_EQ(oracle::Decode(oracle::Kind::kE4M3, got.byte), row.stored);
  }
}

TEST(Nvfp4CasesTest, AllZero) {  // E2
  const Nvfp4Block got = QuantizeNvfp4({0}, 0);
  EXPECT_EQ(got.tensor_scale_inv, 1.0f);
  EXPECT_EQ(got.byte, 0u);
  EXPECT_THAT(got.codes, Each(0));
  EXPECT_THAT(got.back, Each(0.0f));
}

TEST(Nvfp4CasesTest, TheSecondLevelReachesTheTop) {  // E5
  const Nvfp4Block got = QuantizeNvfp4({5376, 1}, 0);
  EXPECT_EQ(got.tensor_scale_inv, 2.0f);
  EXPECT_EQ(got.byte, 0x7Eu);
  EXPECT_EQ(got.codes[0], 7);
  EXPECT_EQ(got.codes[1], 0);
  EXPECT_EQ(got.back[0], 5376.0f);
}

TEST(Nvfp4CasesTest, TiesAndTheTopBinade) {  // E7
  // Tensor amax 2688, block amax 6: both scales are 1.
  const Nvfp4Block got = QuantizeNvfp4(
      {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5, 5.0001f, 6, -0.25f}, 2688);
  EXPECT_THAT(std::vector<uint8_t>(got.codes.begin(), got.codes.begin() + 10),
              ElementsAre(0, 2, 2, 4, 4, 6, 6, 7, 7, 8));
}

TEST(Nvfp4CasesTest, NonFinite) {
  const Nvfp4Block nan = QuantizeNvfp4({1, kNaN, 0}, 0);
  EXPECT_EQ(nan.tensor_scale_inv, 1.0f);
  EXPECT_EQ(nan.byte, 0x7Fu);
  for (const float x : nan.back) EXPECT_TRUE(std::isnan(x));
  const Nvfp4Block inf = QuantizeNvfp4({1, -kInf, 0}, 0);
  EXPECT_EQ(inf.byte, 0x7Eu);
  EXPECT_EQ(inf.codes[1], 0xF);
  EXPECT_EQ(inf.back[1], -2688.0f);
}

TEST(Nvfp4CasesTest, FourOverSixTakesTheSmallerError) {
  Policy policy = Nvfp4Policy();
  policy.nvfp4.four_over_six = true;
  // Scaled to a top of 6 this block is 6 4.5 4.5 ..., of 4: 4 3 3 ...
  std::vector<float> values(16, 0.75f);
  values[0] = 1.0f;
  TestTensor x = TestTensor::Row(DType::kF32, values);
  BlockRig rig(policy, kRow);
  const QuantizedTensor q = rig.Quantize(x);
  EXPECT_EQ(*q.row_wise->scales.tensor_scale_inv, 1.0f / 1536.0f);
  EXPECT_THAT(StoredScales(*q.row_wise), ElementsAre(0x7Cu));  // 384
  const std::vector<uint8_t> codes = UnpackedCodes(q, false);
  EXPECT_EQ(codes[0], 6);
  EXPECT_EQ(codes[1], 5);
  EXPECT_EQ(rig.Dequantize(q), values);
}

TEST(Nvfp4CasesTest, TransformWantsRowsInSixteens) {
  Policy policy = Nvfp4Policy();
  policy.nvfp4.random_hadamard = true;
  TestTensor x = FillTensor(Fill::kPlain, DType::kBF16, 33, 32);
  BlockRig rig(policy, kBoth);
  EXPECT_THAT(rig.quantizer.Quantize(x.view(), Stream{}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("m/input: rows: got 33"),
                             HasSubstr("a multiple of 16"),
                             HasSubstr("random_hadamard"))));
  rig.quantizer.set_usages(kRow);
  EXPECT_THAT(rig.quantizer.Quantize(x.view(), Stream{}), IsOk());
}

TEST(Nvfp4CasesTest, TransformIsOfTheColumnWiseCopyAlone) {
  Policy policy = Nvfp4Policy();
  policy.nvfp4.random_hadamard = true;
  TestTensor x(DType::kF32, 16, 1);
  for (int r = 0; r < 16; ++r) x.Set(r, 0, r == 0 ? 24.0f : 0.0f);
  BlockRig rig(policy, kBoth);
  const QuantizedTensor q = rig.Quantize(x);
  // Row amax before, column amax after: 24 is spread to 6 everywhere.
  EXPECT_EQ(*q.row_wise->scales.tensor_scale_inv, 1.0f / 112.0f);
  EXPECT_EQ(*q.column_wise->scales.tensor_scale_inv, 1.0f / 448.0f);
  EXPECT_THAT(UnpackedCodes(q, true), Each(7));
  EXPECT_FALSE(q.row_wise->hadamard);
  EXPECT_TRUE(q.column_wise->hadamard);
  EXPECT_EQ(oracle::BitsOfFloat(24.0f), rig.amax);
}

// 16 x 65504 x 1/4 is more than float16 holds; of float32, too, before the
// factor.
TEST(Nvfp4CasesTest, AnInfinityThatTheTransformMakesRaisesTheFlag) {
  Policy policy = Nvfp4Policy();
  policy.nvfp4.random_hadamard = true;
  const std::string signs = "+++-+------+-+--";
  for (const auto& [dtype, top] :
       {std::pair<DType, float>{DType::kF16, 65504.0f}, {DType::kF32, kMax}}) {
    TestTensor x =
        TestTensor::Of(dtype, 16, 3, [&, top = top](int64_t r, int64_t c) {
          if (c != 1) return 1.0f;
          return signs[static_cast<size_t>(r)] == '-' ? -top : top;
        });
    BlockRig rig(policy, kBoth);
    const QuantizedTensor q = rig.Quantize(x);
    EXPECT_EQ(rig.amax, 0x7F800000u);
    EXPECT_EQ(*q.column_wise->scales.tensor_scale_inv, 1.0f);
    EXPECT_EQ(*q.row_wise->scales.tensor_scale_inv, 1.0f / (2688.0f / top));
    // Without the copy there is no transform, and nothing that is not finite.
    BlockRig rows(policy, kRow);
    rows.Quantize(x);
    EXPECT_EQ(rows.amax, oracle::BitsOfFloat(top));
    BlockRig silent(policy, kBoth);
    silent.quantizer.set_observing(false);
    silent.Quantize(x);
    EXPECT_EQ(silent.amax, 0u);
  }
}

TEST(Nvfp4CasesTest, TransformOfOtherBlocksIsRefused) {
  Policy policy = Nvfp4Policy();
  policy.nvfp4.two_dimensional = true;
  TestTensor x = FillTensor(Fill::kPlain, DType::kBF16, 16, 16);
  BlockRig rig(policy, kBoth);
  QuantizedTensor q = rig.Quantize(x);
  const uint32_t amax = 0;
  kernels::BlockCastSpec spec;
  spec.format = Format::kE2M1;
  kernels::BlockCastOutput out;
  out.column_wise.codes = q.column_wise->codes.as<uint8_t>();
  out.column_wise.scales = q.column_wise->scales;
  out.column_wise.tensor_amax = &amax;
  out.column_wise.hadamard = true;
  EXPECT_THAT(
      kernels::BlockCast(x.view(), spec, out, {}, Stream{}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("hadamard: got blocks of 16 x 16, want 1 x 16")));
}

TEST(StochasticRoundingTest, DependsOnSeedNameStepAndPosition) {
  Policy policy = Nvfp4Policy();
  policy.nvfp4.stochastic_rounding = true;
  const auto codes = [&](int64_t seed, const std::string& name, int64_t step) {
    policy.nvfp4.seed = seed;
    BlockRig rig(policy, kBoth, name);
    rig.step = step;
    TestTensor x = FillTensor(Fill::kPlain, DType::kBF16, 64, 64);
    const QuantizedTensor q = rig.Quantize(x);
    std::vector<uint8_t> both = UnpackedCodes(q, false);
    const std::vector<uint8_t> turned = UnpackedCodes(q, true);
    both.insert(both.end(), turned.begin(), turned.end());
    return both;
  };
  const std::vector<uint8_t> first = codes(1, "a/grad", 2);
  EXPECT_EQ(codes(1, "a/grad", 2), first);
  EXPECT_NE(codes(2, "a/grad", 2), first);
  EXPECT_NE(codes(1, "b/grad", 2), first);
  EXPECT_NE(codes(1, "a/grad", 3), first);
}

TEST(StochasticRoundingTest, MeanOverStepsIsTheValue) {
  Policy policy = Nvfp4Policy();
  policy.nvfp4.stochastic_rounding = true;
  BlockRig rig(policy, kRow, "m/grad");
  // Block amax 6 and tensor amax 2688 (in another row): both scales are 1.
  TestTensor x(DType::kF32, 2, 16);
  for (int c = 0; c < 16; ++c) {
    x.Set(0, c, c == 0 ? 6.0f : 0.37f * static_cast<float>(c));
    x.Set(1, c, c == 0 ? 2688.0f : 0.0f);
  }
  constexpr int kSteps = 4000;
  std::vector<double> sums(16);
  for (rig.step = 0; rig.step < kSteps; ++rig.step) {
    const std::vector<float> back = rig.Dequantize(rig.Quantize(x));
    for (size_t c = 0; c < 16; ++c) sums[c] += static_cast<double>(back[c]);
  }
  // Five deviations of the mean; one draw's is at most 1.
  for (int c = 0; c < 16; ++c) {
    EXPECT_NEAR(sums[static_cast<size_t>(c)] / kSteps, x.at(0, c),
                5 / std::sqrt(kSteps))
        << c;
  }
}

}  // namespace
}  // namespace scalekeeper
