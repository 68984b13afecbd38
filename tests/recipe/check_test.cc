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
     "1:28: error: defaults.all.current.amax_epsilon: got 1e-60, which is 0 in "
     "float32, want 0 or at least 1.4e-45"},
    {"SchemaVersion", "schema_version: 2 defaults { all { delayed {} } }",
     "1:1: error: schema_version: got 2, want 1"},
    {"UpdateOutOfRange",
     std::string(kGood) + "update { interval: 0 staleness: 2 }",
     "2:10: error: update.interval: got 0, want 1..65536\n"
     "2:22: error: update.staleness: got 2, want 0..1"},
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
     "delayed, current, rowwise, block, mxfp8, nvfp4, custom"},
    {"HexadecimalOutOfRange", Delayed("margin: 0x21"),
     "1:28: error: defaults.all.delayed.margin: got 0x21 (33), want 0..32"},
    {"OctalOutOfRange", Delayed("amax_history_len: - 010"),
     "1:28: error: defaults.all.delayed.amax_history_len: got -010 (-8), want "
     "1..65536"},
    // Values of the other scalings, all at once.
    {"OptionsOfEveryScaling",
     "defaults { input { rowwise { amax_epsilon: -1 amax_group: \"\" } }\n"
     "weight { block { block_shape: B128X128 amax_epsilon: inf } }\n"
     "grad { nvfp4 { amax_group: '' } } }\n"
     "rule { module: \"b\" all { current { amax_group: \"\" } } }",
     "1:30: error: defaults.input.rowwise.amax_epsilon: got -1, want a finite "
     "float32 >= 0\n"
     "1:47: error: defaults.input.rowwise.amax_group: got \"\", want a name\n"
     "2:40: error: defaults.weight.block.amax_epsilon: got inf, want a finite "
     "float32 >= 0\n"
     "3:16: error: defaults.grad.nvfp4.amax_group: got \"\", want a name\n"
     "4:36: error: rule[0].all.current.amax_group: got \"\", want a name"},
    {"FormatsAgainstScalings",
     "defaults { input { format: E2M1 rowwise {} } weight { format: E4M3 nvfp4 "
     "{} }\n"
     "grad { format: E2M1 mxfp8 {} } }\n"
     "rule { module: \"a\" input { format: E2M1 block {} } grad { format: E5M2 "
     "nvfp4 {} } }\n"
     "rule { module: \"b\" grad { format: E2M1 custom { factory: \"f\" } } }",
     "1:20: error: defaults.input.format: got E2M1 with rowwise, want E4M3 or "
     "E5M2\n"
     "1:55: error: defaults.weight.format: got E4M3 with nvfp4, want E2M1\n"
     "2:8: error: defaults.grad.format: got E2M1 with mxfp8, want E4M3 or "
     "E5M2\n"
     "3:28: error: rule[0].input.format: got E2M1 with block, want E4M3 or "
     "E5M2\n"
     "3:59: error: rule[0].grad.format: got E5M2 with nvfp4, want E2M1\n"
     "4:27: error: rule[1].grad.format: got E2M1 with custom, want E4M3 or "
     "E5M2"},
    {"EnumsByNumber",
     "defaults { weight { block { block_shape: 2 } } all { mxfp8 { "
     "scale_rounding: 1 } } }",
     "1:29: error: defaults.weight.block.block_shape: got 2, want B1X128 or "
     "B128X128\n"
     "1:62: error: defaults.all.mxfp8.scale_rounding: got 1, want UP or "
     "OCP_FLOOR"},
    // Contradictions.
    {"HadamardWithFourOverSix",
     "defaults { all { delayed {} } grad { nvfp4 { random_hadamard: true "
     "four_over_six: true } } input { nvfp4 { random_hadamard: true } } }",
     "1:46: error: defaults.grad.nvfp4.random_hadamard: got true beside "
     "four_over_six: true (its choice is made on the values themselves), want "
     "one of them"},
    {"HadamardWithSquareBlocks",
     "defaults { all { delayed {} } grad { nvfp4 { random_hadamard: true } } "
     "input { nvfp4 { two_dimensional: true random_hadamard: true } } }",
     "1:110: error: defaults.input.nvfp4.random_hadamard: got true beside "
     "two_dimensional: true (whose column-wise copy is an exact transpose), "
     "want one of them"},
    {"StochasticWithFourOverSix",
     "defaults { all { nvfp4 { four_over_six: true stochastic_rounding: true } "
     "} }",
     "1:46: error: defaults.all.nvfp4.stochastic_rounding: got true beside "
     "four_over_six: true (its choice needs rounding to nearest), want one of "
     "them"},
    {"ContradictionWithAnInheritedOption",
     "defaults { all { nvfp4 { four_over_six: true } } }\n"
     "phase { from_step: 1 rule { module: \"a\" grad { nvfp4 { "
     "stochastic_rounding: true } } } }\n"
     "phase { from_step: 2 grad { nvfp4 { four_over_six: false "
     "stochastic_rounding: true } } }",
     "2:56: error: phase[0].rule[0].grad.nvfp4.stochastic_rounding: got true "
     "beside four_over_six: true (from defaults) (its choice needs rounding to "
     "nearest), want one of them"},
    {"InheritedOptionAgainstTheRulesOwn",
     "defaults { all { nvfp4 { stochastic_rounding: true } } }\n"
     "rule { module: \"a\" all { nvfp4 { four_over_six: true } } }",
     "2:26: error: rule[0].all.nvfp4.stochastic_rounding: got true (from "
     "defaults) beside four_over_six: true (its choice needs rounding to "
     "nearest), want one of them"},
    {"HadamardOfWeights",
     "defaults { all { nvfp4 { random_hadamard: true } } }",
     "1:26: error: defaults.all.nvfp4.random_hadamard: got true for weight, "
     "want it for input and grad only, the operands of wgrad"},
    {"HadamardOfOneOperand",
     "defaults { all { nvfp4 {} } input { nvfp4 { random_hadamard: true } } }\n"
     "rule { module: \"a\" grad { mxfp8 {} } }\n"
     "phase { from_step: 7 input { high_precision {} } grad { nvfp4 { "
     "random_hadamard: true } } }",
     "1:45: error: defaults.input.nvfp4.random_hadamard: got true for input "
     "while grad has false (defaults), want it for both operands of wgrad or "
     "for none\n"
     "1:45: error: defaults.input.nvfp4.random_hadamard: got true for input "
     "while grad is mxfp8 (rule[0] (r.textproto:2:1)), want it for both "
     "operands of wgrad or for none\n"
     "3:65: error: phase[0].grad.nvfp4.random_hadamard: got true for grad "
     "while input is high_precision (phase[0]), want it for both operands of "
     "wgrad or for none"},
    {"SeedThatNothingUses",
     "defaults { all { nvfp4 { seed: 3 } } }\n"
     "rule { module: \"a\" grad { nvfp4 { seed: 4 stochastic_rounding: true } "
     "} }",
     "1:26: error: defaults.all.nvfp4.seed: got 3 without stochastic_rounding: "
     "true, where it has no effect, want no seed"},
    {"CustomWithoutFactory",
     "defaults { all { custom {} } }\n"
     "rule { module: \"a\" all { custom { factory: \"\" } } }",
     "1:18: error: defaults.all.custom.factory: got nothing, want the name of "
     "a registered factory\n"
     "2:35: error: rule[0].all.custom.factory: got \"\", want the name of a "
     "registered factory"},
    {"CustomParameters",
     "defaults { all { custom { factory: \"f\" parameters { "
     "fields { key: \"a\" value { number_value: nan } }\n"
     "fields { key: \"b\" value { list_value { values {} } } }\n"
     "fields { key: \"c\" value { string_value: \"\\xff\" } } } } } }",
     "1:40: error: defaults.all.custom.parameters: got no value for \"b\", "
     "want "
     "one of null_value, number_value, string_value, bool_value, struct_value, "
     "list_value\n"
     "1:40: error: defaults.all.custom.parameters: got nan for \"a\", want a "
     "finite number\n"
     "1:40: error: defaults.all.custom.parameters: got \"\\xff\", want UTF-8"},
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
    {"EmulateBesideHighPrecision",
     std::string(kGood) +
         "matmul { dgrad { emulate: true high_precision: true } wgrad { "
         "emulate: true } }",
     "2:18: error: matmul.dgrad.emulate: got true beside high_precision: "
     "true, where it has no effect, want no emulate"},
    // Elements of a [ list ] have a place of their own.
    {"ListOfRules",
     std::string(kGood) +
         "rule { module: \"a\" all { high_precision {} } }\n"
         "rule: [ { module: \"b\" }, # none }\n"
         "  { all { high_precision {} } },\n"
         "  { module: \"c\" all { delayed { margin: 40 } } } ]\n"
         "rule { module: \"d\" }",
     "3:9: error: rule[1]: sets nothing, want at least one of input, weight, "
     "grad, all, matmul (with a GEMM), amax_reduction\n"
     "4:3: error: rule[2]: got neither module nor layers, want one of them\n"
     "5:33: error: rule[3].all.delayed.margin: got 40, want 0..32\n"
     "6:1: error: rule[4]: sets nothing, want at least one of input, weight, "
     "grad, all, matmul (with a GEMM), amax_reduction"},
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
        // Every scaling, by itself and mixed: what a chip cannot multiply is
        // the chip's business.
        "defaults { all { rowwise {} } }", "defaults { all { block {} } }",
        "defaults { all { mxfp8 {} } }", "defaults { all { nvfp4 {} } }",
        "defaults { all { custom { factory: \"not.registered\" } } }",
        "defaults { input { nvfp4 {} } weight { mxfp8 {} } grad { block {} } }",
        "defaults { input { current {} } weight { rowwise {} } grad { format: "
        "E5M2 mxfp8 {} } }",
        "defaults { all { block { block_shape: B128X128 } } }",
        "defaults { all { delayed {} } } matmul { fprop { emulate: true } "
        "dgrad "
        "{ emulate: false } wgrad { emulate: true fast_accum: true } }",
        // Stochastic rounding is for grads, but not only.
        "defaults { all { nvfp4 { stochastic_rounding: true seed: "
        "-9223372036854775808 two_dimensional: true } } }",
        // A Hadamard transform on one operand of a GEMM that does not use it.
        "defaults { all { nvfp4 {} } input { nvfp4 { random_hadamard: true } } "
        "} matmul { wgrad { high_precision: true } }",
        // The factory is inherited.
        "defaults { all { custom { factory: \"f\" } } } rule { module: \"a\" "
        "all "
        "{ custom { parameters { fields { key: \"\" value { bool_value: true } "
        "} } } } }",
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

TEST(CheckSpecTest, ParametersMadeInCodeAreChecked) {
  CustomSpec custom;
  custom.factory = "f";
  Parameters& parameters = custom.parameters.emplace();
  parameters["\xff"] = {1.0};
  ParameterValue deep = {true};
  for (int i = 0; i < kMaxParameterDepth; ++i) deep = {ParameterList{deep}};
  parameters["deep"] = deep;
  RecipeSpec spec;
  spec.defaults.emplace().all = PolicySpec::Custom(custom);
  EXPECT_THAT(
      Recipe::Create(spec),
      StatusIs(absl::StatusCode::kInvalidArgument,
               "recipe: error: defaults.all.custom.parameters: got objects and "
               "lists nested more than 16 deep, want fewer\n"
               "recipe: error: defaults.all.custom.parameters: got \"\\xff\", "
               "want UTF-8"));
  parameters.erase("\xff");
  parameters["deep"] = {std::get<ParameterList>(deep.value)[0]};
  spec.defaults->all = PolicySpec::Custom(custom);
  absl::StatusOr<Recipe> made = Recipe::Create(spec);
  ASSERT_THAT(made, IsOk());
  // The deepest that is allowed fits into a phase's rule, too.
  EXPECT_THAT(Recipe::Parse(made->ToString(), "r"), IsOk());
  PhaseSpec& phase = spec.phases.emplace_back();
  phase.from_step = 1;
  RuleSpec& rule = phase.rules.emplace_back();
  rule.module = "a";
  rule.all = spec.defaults->all;
  made = Recipe::Create(spec);
  ASSERT_THAT(made, IsOk());
  EXPECT_THAT(Recipe::Parse(made->ToString(), "r"), IsOk());
}

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
