// Products into codes on the host, the reference for other backends.
#include <cstdint>
#include <vector>

#include "gemm/matmul.h"
#include "gtest/gtest.h"
#include "numerics/amax.h"
#include "tests/gemm/gemm_testing.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::HasSubstr;

constexpr Usages kRowWise = {true, false};
constexpr Usages kBoth = {true, true};

struct HostSlot {
  uint32_t amax = 0;
  float scale = 1;
  float scale_inv = 1;
  SlotView view() { return {&amax, &scale, &scale_inv, nullptr}; }
};

QuantizedTensor Constant(int64_t rows, int64_t cols, float value,
                         Usages usages) {
  Codes codes = {rows, cols, Format::kE4M3,
                 std::vector<uint8_t>(static_cast<size_t>(rows * cols),
                                      EncodeE4M3(value))};
  auto tensor = Quantized(Device::Host(), codes, 1.0f, usages);
  EXPECT_THAT(tensor, IsOk());
  return *std::move(tensor);
}

TEST(MatmulQuantizedTest, WritesCodesScaleInvAndAmax) {
  const QuantizedTensor a = Constant(3, 4, -2.0f, kRowWise);
  const QuantizedTensor b = Constant(4, 5, 1.0f, kRowWise);
  QuantizedTensor out = Constant(3, 5, 0.0f, kBoth);
  HostSlot slot = {AmaxBits(1.0f), 2.0f, 0.5f};
  ASSERT_THAT(MatmulQuantized(a, b, &out, slot.view(), {}, Stream()), IsOk());
  for (const auto* use : {&*out.row_wise, &*out.column_wise}) {
    for (size_t i = 0; i < 15; ++i) {
      EXPECT_EQ(use->codes.as<uint8_t>()[i], EncodeE4M3(-16.0f)) << i;
    }
    EXPECT_EQ(*use->scale_inv.as<float>(), 0.5f);
  }
  EXPECT_EQ(slot.amax, AmaxBits(8.0f));

  // A smaller product does not lower it, a NaN stays.
  const QuantizedTensor small = Constant(4, 5, 0.5f, kRowWise);
  ASSERT_THAT(MatmulQuantized(a, small, &out, slot.view(), {}, Stream()),
              IsOk());
  EXPECT_EQ(slot.amax, AmaxBits(8.0f));
  QuantizedTensor nan = Constant(4, 5, 0.5f, kRowWise);
  nan.row_wise->codes.as<uint8_t>()[7] = 0x7F;
  ASSERT_THAT(MatmulQuantized(a, nan, &out, slot.view(), {}, Stream()), IsOk());
  EXPECT_GT(slot.amax, kFloatInfBits);
  EXPECT_EQ(out.row_wise->codes.as<uint8_t>()[2] & 0x7F, 0x7F);
}

TEST(MatmulQuantizedTest, RefusesWhatHasNoMeaning) {
  const QuantizedTensor a = Constant(3, 4, 1.0f, kRowWise);
  const QuantizedTensor b = Constant(4, 5, 1.0f, kRowWise);
  QuantizedTensor out = Constant(3, 5, 0.0f, kRowWise);
  HostSlot slot;
  const auto invalid = absl::StatusCode::kInvalidArgument;

  MatmulOptions accumulate;  // H5
  accumulate.accumulate = true;
  EXPECT_THAT(MatmulQuantized(a, b, &out, slot.view(), accumulate, Stream()),
              StatusIs(invalid, HasSubstr("8-bit output cannot accumulate")));
  EXPECT_THAT(MatmulQuantized(a, b, nullptr, slot.view(), {}, Stream()),
              StatusIs(invalid, HasSubstr("out: got a null pointer")));
  EXPECT_THAT(MatmulQuantized(a, b, &out, SlotView(), {}, Stream()),
              StatusIs(invalid, HasSubstr("slot: got a null pointer")));
  QuantizedTensor other_shape = Constant(3, 6, 0.0f, kRowWise);
  EXPECT_THAT(
      MatmulQuantized(a, b, &other_shape, slot.view(), {}, Stream()),
      StatusIs(invalid, HasSubstr("M=3 N=6 K=4: out is 3x6, want M x N = "
                                  "3x5")));
  QuantizedTensor column_wise = Constant(3, 5, 0.0f, {false, true});
  EXPECT_THAT(MatmulQuantized(a, b, &column_wise, slot.view(), {}, Stream()),
              StatusIs(invalid, HasSubstr("without row-wise data")));
  out.scaling = Scaling::kCurrent;
  EXPECT_THAT(MatmulQuantized(a, b, &out, slot.view(), {}, Stream()),
              StatusIs(invalid, HasSubstr("want delayed scaling")));
}

}  // namespace
}  // namespace scalekeeper
