// GroupedTensors as operands, against one Quantizer and one Matmul per expert.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "tests/gemm/moe_testing.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const Device kHost = Device::Host();
constexpr Stream kStream;

auto Invalid(const std::string& text) {
  return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text));
}

// G1: experts without tokens are among them.
TEST(MoeLayerTest, EqualsOneMatmulPerExpert) {
  for (const std::string& recipe : MoeRecipes()) {
    for (const std::vector<int64_t>& splits : MoeSplits()) {
      for (const int64_t padding : {0, 7}) {
        MoeLayer layer(recipe, kHost, splits, padding);
        for (int step = 0; step < 2; ++step) {  // measured, then delayed
          for (const bool accumulate : {false, true}) {
            SCOPED_TRACE(absl::StrCat(recipe, ": ", absl::StrJoin(splits, " "),
                                      " + ", padding, ", step ", step));
            const MoeOutputs want = layer.Single(accumulate, kStream);
            // Each copy serves every product.
            for (const Usages usages : {Usages{true, true}, Usages{true, false},
                                        Usages{false, true}}) {
              const MoeOutputs got = layer.Grouped(usages, accumulate, kStream);
              EXPECT_EQ(got.y, want.y) << usages.ToString();
              EXPECT_EQ(got.dx, want.dx) << usages.ToString();
              EXPECT_EQ(got.dw, want.dw) << usages.ToString();
            }
          }
          layer.EndStep(kStream);
        }
      }
    }
  }
}

TEST(MoeLayerTest, WhatIsWrongIsNamed) {
  MoeLayer layer(MoeRecipes()[1], kHost, {5, 0, 3});
  const GroupedTensor x8 =
      layer.QuantizeGrouped(Role::kInput, MoeLayer::kIn, 1, {true, true});
  const GroupedTensor dy8 =
      layer.QuantizeGrouped(Role::kGrad, MoeLayer::kOut, 2, {true, true});
  const std::vector<MatmulOperand> w(layer.weights().begin(),
                                     layer.weights().end());
  DeviceTensor y = layer.Blank(8, MoeLayer::kOut);
  MatmulOptions fprop;
  fprop.transb = true;
  EXPECT_THAT(GroupedMatmul(x8, w, y.view(), {5, 1, 2}, fprop, kStream),
              Invalid("quantized with 0 rows of expert 1, want splits[1] = 1"));
  const std::vector<MatmulOperand> two(w.begin(), w.begin() + 2);
  EXPECT_THAT(GroupedMatmul(x8, two, y.view(), {5, 3}, fprop, kStream),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("a: got 3 experts, current E4M3 8x48"),
                             HasSubstr("want 2 experts"))));
  MatmulOptions transposed = fprop;
  transposed.transa = true;
  EXPECT_THAT(GroupedMatmul(x8, w, y.view(), {5, 0, 3}, transposed, kStream),
              Invalid("whose rows are the tokens, with transa, want it "
                      "without"));
  EXPECT_THAT(
      GroupedMatmul(GroupedTensor(), w, y.view(), {5, 0, 3}, fprop, kStream),
      Invalid("without its data"));
  DeviceTensor small = layer.Blank(8, MoeLayer::kOut + 1);
  EXPECT_THAT(GroupedMatmul(x8, w, small.view(), {5, 0, 3}, fprop, kStream),
              Invalid("out is 8x33, want M x N = 8x32"));

  std::vector<DeviceTensor> dw;
  std::vector<TensorView> views;
  for (int e = 0; e < 3; ++e) {
    dw.push_back(layer.Blank(MoeLayer::kOut, MoeLayer::kIn));
    views.push_back(dw.back().view());
  }
  MatmulOptions wgrad;
  EXPECT_THAT(GroupedMatmulWgrad(dy8, x8, views, {5, 0, 3}, wgrad, kStream),
              Invalid("a: got 3 experts, current E5M2 8x32 on host, whose rows "
                      "are the tokens, without transa"));
  wgrad.transa = wgrad.transb = true;
  EXPECT_THAT(GroupedMatmulWgrad(dy8, x8, views, {5, 0, 3}, wgrad, kStream),
              Invalid("with transb, want it without"));
  wgrad.transb = false;
  EXPECT_THAT(GroupedMatmulWgrad(dy8, dy8, views, {5, 0, 3}, wgrad, kStream),
              Invalid("out is 32x48, want M x N = 32x32"));
}

}  // namespace
}  // namespace scalekeeper
