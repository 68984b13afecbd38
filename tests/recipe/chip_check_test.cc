// What a chip cannot multiply is found before anything is allocated.
#include "recipe/chip_check.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "recipe/gemm_capability.h"
#include "recipe/recipe.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

absl::Status Check(const std::string& text, int compute_capability,
                   const std::vector<std::string>& modules = {"fc1"},
                   ChipCheckOptions options = ChipCheckOptions()) {
  const absl::StatusOr<Recipe> recipe = Recipe::Parse(text, "r.textproto");
  if (!recipe.ok()) return recipe.status();
  const absl::StatusOr<ResolvedModules> resolved = recipe->Resolve(modules);
  if (!resolved.ok()) return resolved.status();
  options.compute_capability = compute_capability;
  return CheckChip(recipe->phase_from_steps(), modules, *resolved, options);
}

absl::Status CheckPreset(const std::string& name, int compute_capability) {
  const absl::StatusOr<std::string> text = Recipe::PresetText(name);
  return text.ok() ? Check(*text, compute_capability,
                           {"layers.0.fc1", "layers.31.fc2"})
                   : text.status();
}

auto Refused(const std::string& text) {
  return StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(text));
}

// M10
TEST(ChipCheckTest, PresetsByChip) {
  const struct {
    const char* name;
    bool sm_80, sm_89, sm_90, sm_100;
  } rows[] = {
      {"high_precision", true, true, true, true},
      {"delayed_hybrid", false, true, true, true},
      {"delayed_e4m3", false, true, true, true},
      {"tensorwise", false, true, true, true},
      {"rowwise", false, false, true, false},
      {"blockwise", false, false, true, false},
      {"mxfp8", false, false, false, true},
      {"nvfp4", false, false, false, true},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(CheckPreset(row.name, 80).ok(), row.sm_80) << row.name;
    EXPECT_EQ(CheckPreset(row.name, 89).ok(), row.sm_89) << row.name;
    EXPECT_EQ(CheckPreset(row.name, 90).ok(), row.sm_90) << row.name;
    EXPECT_EQ(CheckPreset(row.name, 100).ok(), row.sm_100) << row.name;
    EXPECT_EQ(CheckPreset(row.name, 120).ok(), row.sm_100) << row.name;
  }
}

// M10: module, role, GEMM, format, chip and the switch.
TEST(ChipCheckTest, AConflictSaysWhatToDo) {
  const absl::Status status = CheckPreset("mxfp8", 90);
  for (const char* gemm : {"fprop", "dgrad", "wgrad"}) {
    EXPECT_THAT(status,
                Refused(std::string("matmul { ") + gemm +
                        " { emulate: true } } to compute it in bfloat16"));
  }
  EXPECT_THAT(
      status,
      Refused("modules \"layers.0.fc1\", \"layers.31.fc2\": compute capability "
              "9.0 does not multiply input (mxfp8 E4M3) x weight (mxfp8 E4M3) "
              "in fprop (10.0 and newer multiplies them)"));
}

// M10: all at once, each with its own module.
TEST(ChipCheckTest, AllConflictsAtOnce) {
  const absl::Status status = Check(R"(
      defaults { all { format: E4M3 delayed {} } }
      rule { module: "a" all { mxfp8 {} } }
      rule { module: "b" input { nvfp4 {} } weight { nvfp4 {} } }
      rule { module: "c" weight { high_precision {} } }
      rule { module: "d" input { high_precision { dtype: FP16 } }
                         weight { high_precision { dtype: BF16 } } }
      rule { module: "e" all { mxfp8 {} }
             matmul { fprop { emulate: true } dgrad { high_precision: true }
                      wgrad { emulate: true } } }
      )",
                                    90, {"a", "b", "c", "d", "e", "fine"});
  EXPECT_THAT(status, Refused("module \"a\": compute capability 9.0 does not "
                              "multiply input (mxfp8 E4M3) x weight (mxfp8 "
                              "E4M3) in fprop"));
  EXPECT_THAT(status, Refused("module \"a\": compute capability 9.0 does not "
                              "multiply input (mxfp8 E4M3) x grad (mxfp8"));
  EXPECT_THAT(status, Refused("module \"b\": compute capability 9.0 does not "
                              "multiply weight (nvfp4 E2M1) x grad (delayed "
                              "E4M3) in dgrad (no chip multiplies them)"));
  EXPECT_THAT(status, Refused("module \"c\": compute capability 9.0 does not "
                              "multiply input (delayed E4M3) x weight "
                              "(high_precision BF16) in fprop (no chip"));
  EXPECT_THAT(status, Refused("module \"d\": compute capability 9.0 does not "
                              "multiply input (high_precision FP16) x weight "
                              "(high_precision BF16) in fprop (no chip"));
  EXPECT_THAT(std::string(status.message()),
              AllOf(Not(HasSubstr("\"e\"")), Not(HasSubstr("\"fine\""))));
}

TEST(ChipCheckTest, ManyModulesAreCounted) {
  std::vector<std::string> modules;
  for (int i = 0; i < 1000; ++i) modules.push_back("m" + std::to_string(i));
  const absl::Status status =
      Check("defaults { all { mxfp8 {} } }", 90, modules);
  EXPECT_THAT(status, Refused("modules \"m0\", \"m1\", \"m2\" and 997 more: "));
  EXPECT_LT(status.message().size(), 1500u);
}

TEST(ChipCheckTest, ALaterPhaseIsCheckedToo) {
  const char kRecipe[] = R"(
      defaults { all { format: E4M3 delayed {} } }
      phase { from_step: 500 all { mxfp8 {} } }
      )";
  EXPECT_THAT(Check(kRecipe, 90),
              Refused("module \"fc1\" from step 500: compute capability 9.0"));
  EXPECT_THAT(Check(kRecipe, 100), IsOk());
}

TEST(ChipCheckTest, OnlyTheGemmsThatAreComputed) {
  const char kRecipe[] = R"(
      defaults { all { format: E4M3 delayed {} } grad { mxfp8 {} } }
      )";
  EXPECT_THAT(Check(kRecipe, 90), Refused("in wgrad"));
  constexpr Gemm kFprop[] = {Gemm::kFprop};
  ChipCheckOptions options;
  options.gemms = kFprop;
  EXPECT_THAT(Check(kRecipe, 90, {"fc1"}, options), IsOk());
  const std::vector<bool> none = {false};
  ChipCheckOptions no_gemms;
  no_gemms.has_gemms = &none;
  EXPECT_THAT(Check(kRecipe, 90, {"fc1"}, no_gemms), IsOk());
}

// M10: E5M2 for all is refused on every chip, at load.
TEST(ChipCheckTest, TwoE5M2OperandsNeedNoChip) {
  EXPECT_THAT(Recipe::Parse("defaults { all { format: E5M2 delayed {} } }", "r")
                  .status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("at most one E5M2 operand in fprop")));
}

TEST(GemmCapabilityTest, IsSymmetric) {
  for (int a = 0; a <= static_cast<int>(OperandKind::kOther); ++a) {
    for (int b = 0; b <= static_cast<int>(OperandKind::kOther); ++b) {
      const OperandKind kind_a = static_cast<OperandKind>(a);
      const OperandKind kind_b = static_cast<OperandKind>(b);
      for (const int chip : {80, 89, 90, 100, 103, 120}) {
        EXPECT_EQ(IsMultiplied(kind_a, kind_b, chip),
                  IsMultiplied(kind_b, kind_a, chip))
            << a << " " << b << " " << chip;
      }
    }
  }
  EXPECT_EQ(ChipsThatMultiply(OperandKind::kRowwise, OperandKind::k1x128),
            "9.0");
  EXPECT_EQ(ChipsThatMultiply(OperandKind::kPerTensor, OperandKind::kPerTensor),
            "8.9 and newer");
  EXPECT_EQ(ChipsThatMultiply(OperandKind::kOther, OperandKind::kOther),
            "no chip");
}

}  // namespace
}  // namespace scalekeeper
