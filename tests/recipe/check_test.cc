// Recipes that parse and say something that is not allowed.
#include <cmath>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "recipe/recipe.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

constexpr char kGood[] = "defaults { all { delayed {} } }\n";

struct Row {
  const char* name;
  std::string text;
  std::string message;  // each line without "r.textproto:"
};

class CheckTest : public ::testing::TestWithParam<Row> {};

TEST_P(CheckTest, ReportsEveryFaultInFileOrder) {
  std::string want = "r.textproto:";
  for (char c : GetParam().message) {
    want += c;
    if (c == '\n') want += "r.textproto:";
  }
  EXPECT_THAT(Recipe::Parse(GetParam().text, "r.textproto"),
              StatusIs(absl::StatusCode::kInvalidArgument, want));
}

std::string Delayed(const std::string& field) {
  return "defaults { all { delayed { " + field + " } } }";
}

const Row kRows[] = {
    // B6, M3, M11, C3: ranges.
    {"B6MarginNegative", Delayed("margin: -1"),
     "1:28: error: defaults.all.delayed.margin: got -1, want 0..32"},
    {"B6Margin33", Delayed("margin: 33"),
     "1:28: error: defaults.all.delayed.margin: got 33, want 0..32"},
    {"B6Margin160", Delayed("margin: 160"),
     "1:28: error: defaults.all.delayed.margin: got 160, want 0..32"},
    {"B6MarginOfUnsignedMinusOne", Delayed("margin: 4294967295"),
     "1:28: error: defaults.all.delayed.margin: got 4294967295, want 0..32"},
    {"M3C3HistoryZero", Delayed("amax_history_len: 0"),
     "1:28: error: defaults.all.delayed.amax_history_len: got 0, want "
     "1..65536"},
    {"M11HistoryNegative", Delayed("amax_history_len: -1"),
     "1:28: error: defaults.all.delayed.amax_history_len: got -1, want "
     "1..65536"},
    {"History65537", Delayed("amax_history_len: 65537"),
     "1:28: error: defaults.all.delayed.amax_history_len: got 65537, want "
     "1..65536"},
    {"M11History2To32", Delayed("amax_history_len: 4294967296"),
     "1:28: error: defaults.all.delayed.amax_history_len: got 4294967296, want "
     "1..65536"},
    {"EnumByNumber", "defaults { all { format: 1 delayed {} } }",
     "1:18: error: defaults.all.format: got 1, want E4M3, E5M2 or E2M1"},
    {"EnumByNumberInside", Delayed("amax_compute_algo : # MAX\n 1"),
     "1:28: error: defaults.all.delayed.amax_compute_algo: got 1, want MAX or "
     "MOST_RECENT"},
    {"EpsilonNegative", "defaults { all { current { amax_epsilon: -1e-4 } } }",
     "1:28: error: defaults.all.current.amax_epsilon: got -0.0001, want a "
     "finite float32 >= 0"},
    {"EpsilonNaN", "defaults { all { current { amax_epsilon: nan } } }",
     "1:28: error: defaults.all.current.amax_epsilon: got nan, want a finite "
     "float32 >= 0"},
    {"EpsilonInfinite", "defaults { all { current { amax_epsilon: 1e39 } } }",
     "1:28: error: defaults.all.current.amax_epsilon: got 1e+39, want a finite "
     "float32 >= 0"},
    {"EpsilonThatFloat32FlushesToZero",
     "defaults { all { current { amax_epsilon: 1e-60 } } }",
     "1:28: error: defaults.all.current.amax_epsilon: got 1e-60, want a finite "
     "float32 >= 0"},
    {"SchemaVersion", "schema_version: 2 defaults { all { delayed {} } }",
     "1:1: error: schema_version: got 2, want 1"},
    {"EmptyGroup", std::string(kGood) + "amax_reduction { group: \"\" }",
     "2:18: error: amax_reduction.group: got \"\", want a name"},
    // What every recipe needs.
    {"NoDefaults", "name: \"x\"",
     "1:1: error: defaults: got nothing, want a policy with a scaling for "
     "every "
     "role"},
    {"OnlyAComment", "# nothing\n",
     "1:1: error: defaults: got nothing, want a policy with a scaling for "
     "every "
     "role"},
    {"RoleMissing", "\ndefaults { input { delayed {} } grad { delayed {} } }",
     "2:1: error: defaults.weight: got nothing, want a policy with a scaling "
     "for every role (or `all`)"},
    {"NoScaling", "defaults { all { delayed {} } grad { format: E5M2 } }",
     "1:31: error: defaults.grad: got no scaling, want one of high_precision, "
     "delayed, current (rowwise, block, mxfp8, nvfp4, custom are not yet "
     "built)"},
    // Named in the schema, not built.
    {"NotYetBuilt",
     "defaults { input { mxfp8 {} } weight { nvfp4 { seed: 3 } }\n"
     "grad { rowwise {} } }\n"
     "rule { module: \"a\" all { block {} } }\n"
     "rule { module: \"b\" all { custom { factory: \"f\" } } }\n"
     "rule { module: \"c\" all { current { amax_group: \"tp\" } } }\n"
     "matmul { wgrad { emulate: true } }",
     "1:20: error: defaults.input.mxfp8: not yet built, want high_precision, "
     "delayed or current\n"
     "1:40: error: defaults.weight.nvfp4: not yet built, want high_precision, "
     "delayed or current\n"
     "2:8: error: defaults.grad.rowwise: not yet built, want high_precision, "
     "delayed or current\n"
     "3:26: error: rule[0].all.block: not yet built, want high_precision, "
     "delayed or current\n"
     "4:26: error: rule[1].all.custom: not yet built, want high_precision, "
     "delayed or current\n"
     "5:36: error: rule[2].all.current.amax_group: not yet built, want no "
     "amax_group\n"
     "6:18: error: matmul.wgrad.emulate: not yet built (it belongs to mxfp8 "
     "and nvfp4), want false"},
    {"E2M1WithDelayed", "defaults { all { format: E2M1 delayed {} } }",
     "1:18: error: defaults.all.format: got E2M1 with delayed, want E4M3 or "
     "E5M2"},
    // No effect.
    {"FormatBesideHighPrecision",
     std::string(kGood) +
         "rule { module: \"a\" all { high_precision {} format: E4M3 } }",
     "2:44: error: rule[0].all.format: got E4M3 beside high_precision, where "
     "it has no effect, want no format"},
    {"GroupBesideDisabled",
     std::string(kGood) + "amax_reduction { enabled: false group: \"x\" }",
     "2:33: error: amax_reduction.group: got \"x\" beside enabled: false, "
     "where "
     "it has no effect, want no group"},
    {"FastAccumBesideHighPrecision",
     std::string(kGood) +
         "matmul { fprop { fast_accum: false high_precision: true } }",
     "2:18: error: matmul.fprop.fast_accum: got false beside high_precision: "
     "true, where it has no effect, want no fast_accum"},
    {"RuleSetsNothing",
     std::string(kGood) +
         "rule { module: \"a\" }\nrule { module: \"b\" matmul {} }\n"
         "phase { from_step: 1 rule { module: \"c\" optional: true } }",
     "2:1: error: rule[0]: sets nothing, want at least one of input, weight, "
     "grad, all, matmul (with a GEMM), amax_reduction\n"
     "3:1: error: rule[1]: sets nothing, want at least one of input, weight, "
     "grad, all, matmul (with a GEMM), amax_reduction\n"
     "4:22: error: phase[0].rule[0]: sets nothing, want at least one of input, "
     "weight, grad, all, matmul (with a GEMM), amax_reduction"},
    // M9, first order.
    {"M9RuleHiddenByAll",
     std::string(kGood) +
         "rule { module: \".*\" all { delayed { margin: 1 } } }\n"
         "rule { module: \".*lm_head\" all { high_precision {} } }",
     "3:1: error: rule[1]: never applies: rule[0] with \".*\" sets all its "
     "items first, want it before that rule or removed"},
    {"RuleHiddenBySamePattern",
     std::string(kGood) +
         "rule { module: \"a.*\" all { delayed { margin: 1 } } }\n"
         "rule { module: \"a.*\" grad { high_precision {} } }",
     "3:1: error: rule[1]: never applies: rule[0] with the same pattern sets "
     "all its items first, want it before that rule or removed"},
    {"RuleHiddenByTwo",
     std::string(kGood) +
         "rule { module: \".*\" grad { high_precision {} } }\n"
         "rule { module: \"b\" weight { high_precision {} } }\n"
         "rule { module: \"b\" weight { delayed {} } grad { delayed {} } }",
     "4:1: error: rule[2]: never applies: rule[0] with \".*\" sets all its "
     "items first, want it before that rule or removed"},
    {"LayersRuleHidden",
     std::string(kGood) +
         "rule { layers { pattern: \"l(\\\\d+)\" first: 1 } all { delayed {} } "
         "}\n"
         "rule { layers { pattern: \"l(\\\\d+)\" last: 1 } all { delayed {} } "
         "}\n"
         "rule { layers { pattern: \"l(\\\\d+)\" first: 1 } grad { delayed {} "
         "} "
         "}",
     "4:1: error: rule[2]: never applies: rule[0] with the same pattern sets "
     "all its items first, want it before that rule or removed"},
    {"PhaseRuleHidden",
     std::string(kGood) +
         "phase { from_step: 1\n rule { module: \".*\" all { delayed {} } }\n"
         " rule { module: \"x\" grad { high_precision {} } } }",
     "4:2: error: phase[0].rule[1]: never applies: phase[0].rule[0] with "
     "\".*\" "
     "sets all its items first, want it before that rule or removed"},
    // H4, M10: two E5M2 operands.
    {"H4E5M2ForAll", "defaults { all { format: E5M2 delayed {} } }",
     "1:18: error: defaults.all.format: got E5M2 for input while weight is "
     "E5M2 "
     "too (defaults), want at most one E5M2 operand in fprop\n"
     "1:18: error: defaults.all.format: got E5M2 for weight while grad is E5M2 "
     "too (defaults), want at most one E5M2 operand in dgrad\n"
     "1:18: error: defaults.all.format: got E5M2 for input while grad is E5M2 "
     "too (defaults), want at most one E5M2 operand in wgrad"},
    {"E5M2RuleAgainstDefaults",
     std::string(kGood) +
         "rule { module: \"x\" weight { format: E5M2 current {} } }",
     "2:29: error: rule[0].weight.format: got E5M2 for weight while grad is "
     "E5M2 too (defaults), want at most one E5M2 operand in dgrad"},
    {"E5M2PhaseAgainstDefaults",
     std::string(kGood) +
         "phase { from_step: 3 input { format: E5M2 delayed {} } }",
     "2:30: error: phase[0].input.format: got E5M2 for input while grad is "
     "E5M2 "
     "too (defaults), want at most one E5M2 operand in wgrad"},
    {"E5M2PhaseRuleAgainstRule",
     "defaults { all { format: E4M3 delayed {} } }\n"
     "rule { module: \"x\" grad { format: E5M2 delayed {} } }\n"
     "phase { from_step: 3 rule { module: \"x\" input { format: E5M2 delayed "
     "{} "
     "} } }",
     "3:49: error: phase[0].rule[0].input.format: got E5M2 for input while "
     "grad "
     "is E5M2 too (rule[0] (r.textproto:2:1)), want at most one E5M2 operand "
     "in wgrad"},
    // Patterns.
    {"BadRegex",
     std::string(kGood) + "rule { module: \"a(\" all {delayed {}} }",
     "2:8: error: rule[0].module: got \"a(\", want an RE2 pattern: missing ): "
     "a("},
    {"EmptyPattern",
     std::string(kGood) + "rule { module: \"\" all {delayed {}} }",
     "2:8: error: rule[0].module: got \"\", which matches no module, want a "
     "pattern"},
    {"NoSelector", std::string(kGood) + "rule { all { high_precision {} } }",
     "2:1: error: rule[0]: got neither module nor layers, want one of them"},
    {"TwoSelectors",
     std::string(kGood) +
         "rule { module: \"a\" layers { pattern: \"(a)\" first: 1 } all { "
         "high_precision {} } }",
     "2:20: error: rule[0].layers: got both module and layers, want one of "
     "them"},
    {"LayersFaults",
     std::string(kGood) +
         "rule { layers { pattern: \"(a)(b)\" first: -1 last: 2 last_percent: "
         "101 } all { high_precision {} } }\n"
         "rule { layers { pattern: \"a\" } all { high_precision {} } }\n"
         "rule { layers { last: 1 } all { high_precision {} } }",
     "2:17: error: rule[0].layers.pattern: got 2 capturing groups in "
     "\"(a)(b)\", want exactly 1, the layer's number (others as (?:...))\n"
     "2:35: error: rule[0].layers.first: got -1, want >= 0\n"
     "2:53: error: rule[0].layers.last_percent: got 101, want 0..100\n"
     "2:53: error: rule[0].layers.last_percent: got both last and "
     "last_percent, "
     "want one of them\n"
     "3:8: error: rule[1].layers: got no layers, want at least one of first, "
     "last, last_percent\n"
     "3:17: error: rule[1].layers.pattern: got 0 capturing groups in \"a\", "
     "want exactly 1, the layer's number (others as (?:...))\n"
     "4:8: error: rule[2].layers.pattern: got nothing, want a pattern whose "
     "one "
     "group captures the layer's number"},
    // Phases.
    {"PhaseOrder",
     std::string(kGood) +
         "phase { from_step: -1 }\nphase { from_step: 7 }\nphase { from_step: "
         "7 }\nphase { }\nphase { from_step: 6 }",
     "2:9: error: phase[0].from_step: got -1, want >= 0\n"
     "4:9: error: phase[2].from_step: got 7, want > 7 (that of the phase "
     "before)\n"
     "5:1: error: phase[3].from_step: got nothing, want a step >= 0\n"
     "6:9: error: phase[4].from_step: got 6, want > 7 (that of the phase "
     "before)"},
    // M10: everything at once, in file order whatever the kind of fault.
    {"M10AllAtOnce",
     "rule { module: \"[\" all { high_precision {} } }\n"
     "defaults { all { format: E5M2 delayed { margin: 40 } } }\n"
     "matmul { fprop { high_precision: true } }",
     "1:8: error: rule[0].module: got \"[\", want an RE2 pattern: missing ]: "
     "[\n"
     "2:18: error: defaults.all.format: got E5M2 for weight while grad is E5M2 "
     "too (defaults), want at most one E5M2 operand in dgrad\n"
     "2:18: error: defaults.all.format: got E5M2 for input while grad is E5M2 "
     "too (defaults), want at most one E5M2 operand in wgrad\n"
     "2:41: error: defaults.all.delayed.margin: got 40, want 0..32"},
    {"ControlCharactersStayOnOneLine",
     std::string(kGood) + "rule { module: \"a(\\n\" all {delayed {}} }",
     "2:8: error: rule[0].module: got \"a(\\x0a\", want an RE2 pattern: "
     "missing "
     "): a(\\n"},
};

INSTANTIATE_TEST_SUITE_P(Recipes, CheckTest, ::testing::ValuesIn(kRows),
                         [](const auto& info) { return info.param.name; });

class AllowedTest : public ::testing::TestWithParam<const char*> {};

TEST_P(AllowedTest, Loads) {
  EXPECT_THAT(Recipe::Parse(GetParam(), "r.textproto"), IsOk());
}

INSTANTIATE_TEST_SUITE_P(
    Recipes, AllowedTest,
    ::testing::Values(
        // The ends of the ranges.
        "defaults { all { delayed { margin: 0 amax_history_len: 1 } } }",
        "defaults { all { delayed { margin: 32 amax_history_len: 65536 } } }",
        "defaults { all { current { amax_epsilon: 1e-45 } } }",
        "defaults { all { current { amax_epsilon: 3.4028234663852886e38 } } }",
        // Text format's own liberties.
        "\xef\xbb\xbf"
        "defaults { all { delayed {} } }",
        "defaults {\r\n all { delayed {} }\r\n}\r\n",
        "defaults < all: < delayed <>; >, > rule [ {module: 'a' 'b' all "
        "{high_precision {}}} ]",
        "schema_version: 1 defaults { all { delayed {} } }",
        // H4: HYBRID and E4M3 load; E5M2 for all does where no GEMM meets two.
        "defaults { all { format: E4M3 delayed {} } }",
        "defaults { all { format: E5M2 delayed {} } } matmul { fprop { "
        "high_precision: true } dgrad { high_precision: true } wgrad { "
        "high_precision: true } }",
        "defaults { all { delayed {} } } rule { module: \"x\" weight { format: "
        "E5M2 delayed {} } matmul { dgrad { high_precision: true } } }",
        // A module may get E4M3 gradients from another rule: for Resolve.
        "defaults { all { delayed {} } } rule { module: \"x\" weight { format: "
        "E5M2 delayed {} } } rule { module: \"x|y\" grad { format: E4M3 "
        "delayed {} } }",
        // The faulty defaults are never used.
        "defaults { all { format: E5M2 delayed {} } } rule { module: \".*\" "
        "all "
        "{ format: E4M3 delayed {} } }",
        // M9, second order; a general rule after special ones.
        "defaults { all { delayed {} } } rule { module: \".*lm_head\" all { "
        "high_precision {} } } rule { module: \".*\" all { delayed {} } }",
        // Same pattern, other items.
        "defaults { all { delayed {} } } rule { module: \"a\" input { "
        "high_precision {} } } rule { module: \"a\" weight { high_precision {} "
        "} }",
        "defaults { all { delayed {} } } phase { from_step: 0 }"));

TEST(CheckSpecTest, FaultsOfARecipeMadeInCodeCarryThePathAlone) {
  RecipeSpec spec;
  spec.defaults.emplace().all = PolicySpec::Delayed();
  DelayedSpec delayed;
  delayed.margin = -1;
  spec.defaults->grad = PolicySpec::Delayed(delayed);
  RuleSpec& rule = spec.rules.emplace_back();
  rule.module = "head";
  HighPrecisionSpec codes;
  codes.dtype = DType::kUint8;
  rule.all = PolicySpec::HighPrecision(codes);
  EXPECT_THAT(
      Recipe::Create(spec),
      StatusIs(absl::StatusCode::kInvalidArgument,
               "recipe: error: defaults.grad.delayed.margin: got -1, want "
               "0..32\n"
               "recipe: error: rule[0].all.high_precision.dtype: got uint8, "
               "want BF16, FP16 or FP32"));
}

}  // namespace
}  // namespace scalekeeper
