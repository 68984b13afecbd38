// lint, presets, diff, fingerprint and the program's own help.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "recipe/recipe.h"
#include "tests/tools/command_testing.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(ScalekeeperTest, HelpIsOnStandardOutputEverywhere) {
  for (const char* flag : {"--help", "-h", "help"}) {
    const CommandResult result = RunCommand({flag});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.out, StartsWith("Usage: scalekeeper COMMAND"));
    EXPECT_EQ(result.err, "");
    for (const Command& command : Commands()) {
      EXPECT_THAT(result.out, HasSubstr(std::string(command.summary)));
    }
  }
  for (const Command& command : Commands()) {
    const std::string name(command.name);
    const CommandResult result = RunCommand({name, "--help"});
    EXPECT_EQ(result.exit_code, 0) << name;
    EXPECT_THAT(result.out, StartsWith("Usage: scalekeeper " + name));
    EXPECT_EQ(result.err, "") << name;
    EXPECT_EQ(RunCommand({"help", name}).out, result.out);
  }
}

TEST(ScalekeeperTest, WrongCommandsAreRefusedWithASuggestion) {
  CommandResult result = RunCommand({"lnit", "x"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err,
            "scalekeeper: unknown command \"lnit\", did you mean \"lint\"?\n"
            "Try 'scalekeeper --help'.\n");
  EXPECT_EQ(result.out, "");
  result = RunCommand({"frobnicate"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err,
            "scalekeeper: unknown command \"frobnicate\"\nTry 'scalekeeper "
            "--help'.\n");
  result = RunCommand({});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, StartsWith("Usage: scalekeeper COMMAND"));
}

TEST(LintTest, PresetsAreClean) {
  std::vector<std::string> args = {"lint"};
  std::string want;
  for (const std::string& name : Recipe::PresetNames()) {
    args.push_back(name);
    absl::StrAppend(&want, name, ": ok\n");
  }
  const CommandResult result = RunCommand(args);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, want);
  EXPECT_EQ(result.err, "");
}

TEST(LintTest, EachFindingIsALineWithItsPlace) {
  const std::string bad = NewFile(
      "bad.textproto",
      "defaults { all { delayed { margin: 99\n amax_history_len: 0 } } }\n"
      "rule { module: \".*\" all { high_precision {} } }\n"
      "rule { module: \"head\" all { delayed {} } }\n");
  const CommandResult result = RunCommand({"lint", bad, "tensorwise"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "tensorwise: ok\n");
  EXPECT_EQ(
      result.err,
      absl::StrCat(
          bad,
          ":1:28: error: defaults.all.delayed.margin: got 99, want 0..32\n",
          bad,
          ":2:2: error: defaults.all.delayed.amax_history_len: got 0, want "
          "1..65536\n",
          bad,
          ":4:1: error: rule[1]: never applies: rule[0] with \".*\" sets all "
          "its items first, want it before that rule or removed\n"));
}

TEST(LintTest, ModuleNamesAddTheirChecks) {
  const std::string recipe =
      NewFile("rules.textproto",
              "defaults { all { delayed {} } }\n"
              "rule { module: \"a.*\" all { high_precision {} } }\n"
              "rule { module: \"ab\" all { current {} } }\n"
              "rule { module: \"q\" all { current {} } }\n"
              "rule { module: \"r\" all { current {} } optional: true }\n");
  const std::string modules = NewFile("names.txt", "a\nab\n");
  EXPECT_EQ(RunCommand({"lint", recipe}).exit_code, 0);
  CommandResult result = RunCommand({"lint", recipe, "--modules", modules});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("rules.textproto:3:1: error: rule[1]"
                                          ": never applies"),
                                HasSubstr("rules.textproto:4:8: error: "
                                          "rule[2].module: got \"q\"")));
  // A warning is no finding.
  const std::string fine =
      NewFile("fine.textproto",
              "defaults { all { delayed {} } } rule { module: \"r\" all { "
              "current {} } optional: true }\n");
  result = RunCommand({"lint", fine, "--modules", modules});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("fine.textproto:1:40: warning: "
                                    "rule[0].module: got \"r\""));
}

TEST(LintTest, TroubleGivesExitCode2) {
  CommandResult result = RunCommand({"lint"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err,
            "scalekeeper lint: want at least one FILE\n"
            "Try 'scalekeeper lint --help'.\n");
  const std::string bad = NewFile("bad.textproto", "defaults { }");
  result = RunCommand({"lint", bad, "/no/such", "tensorwise"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("bad.textproto:1:1: error: "),
                                HasSubstr("/no/such: no such file")));
  EXPECT_EQ(result.out, "tensorwise: ok\n");
  EXPECT_EQ(RunCommand({"lint", "tensorwise", "--modules=/no"}).exit_code, 2);
  EXPECT_EQ(RunCommand({"lint", "tensorwise", "--chip=sm_75"}).exit_code, 2);
}

// M10
TEST(LintTest, TheChipIsAskedWithoutOne) {
  CommandResult result = RunCommand({"lint", "mxfp8", "--chip=sm_100"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "mxfp8: ok\n");
  result = RunCommand({"lint", "mxfp8", "--chip=sm_90"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err,
              AllOf(StartsWith("mxfp8: error: module \"any module\": compute "
                               "capability 9.0 does not multiply input (mxfp8 "
                               "E4M3) x weight (mxfp8 E4M3) in fprop"),
                    HasSubstr("in dgrad"), HasSubstr("in wgrad")));

  const std::string modules = NewFile("chip_modules.txt", "head\nfc1\nfc2\n");
  const std::string recipe =
      NewFile("chip.textproto",
              "defaults { all { format: E4M3 delayed {} } }\n"
              "rule { module: \"fc.*\" all { format: E4M3 rowwise {} } }\n");
  EXPECT_EQ(RunCommand({"lint", recipe, "--chip=sm_90", "--modules", modules})
                .exit_code,
            0);
  result = RunCommand({"lint", recipe, "--chip=sm_89", "--modules", modules});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              HasSubstr("error: modules \"fc1\", \"fc2\": compute capability "
                        "8.9 does not multiply input (rowwise E4M3)"));
}

TEST(PresetsTest, ListsAndPrints) {
  CommandResult result = RunCommand({"presets"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(
      result.out,
      HasSubstr("\ndelayed_hybrid              Delayed scaling; E4M3 for "
                "input and weight, E5M2 for grad\n"));
  result = RunCommand({"presets", "tensorwise"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, FileText("recipe/presets/tensorwise.textproto"));
  result = RunCommand({"presets", "tensorwize"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err,
            "scalekeeper presets: unknown preset \"tensorwize\", did you mean "
            "\"tensorwise\"?; known: blockwise, delayed_e4m3, delayed_hybrid, "
            "delayed_hybrid_bf16_ends, delayed_hybrid_bf16_warmup, "
            "high_precision, mxfp8, nvfp4, nvfp4_bf16_tail, rowwise, "
            "rowwise_wgrad_bf16, tensorwise\n");
  EXPECT_EQ(RunCommand({"presets", "a", "b"}).exit_code, 2);
}

TEST(DiffTest, ShowsTheOptionsOfEveryScaling) {
  const CommandResult result = RunCommand({"diff", "blockwise", "mxfp8"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(
      result.out,
      AllOf(StartsWith("defaults.input.scaling: block -> mxfp8\n"
                       "defaults.input.block.block_shape: B1X128 -> (none)\n"
                       "defaults.input.block.power_2_scale: true -> (none)\n"),
            HasSubstr("defaults.weight.block.block_shape: B128X128 -> ")));
  EXPECT_EQ(RunCommand({"diff", "rowwise", "rowwise_wgrad_bf16"}).out,
            "matmul.wgrad.fast_accum: true -> (none)\n"
            "matmul.wgrad.high_precision: false -> true\n");
}

TEST(FingerprintTest, PrintsIt) {
  EXPECT_EQ(RunCommand({"fingerprint", "delayed_hybrid"}).out,
            "f2b4f3689d470224\n");
  EXPECT_EQ(RunCommand({"fingerprint"}).exit_code, 2);
  EXPECT_EQ(RunCommand({"fingerprint", "/no/such"}).exit_code, 2);
  const std::string bad = NewFile("bad.textproto", "defaults { }");
  EXPECT_EQ(RunCommand({"fingerprint", bad}).exit_code, 1);
}

TEST(DiffTest, EqualRecipesGiveNothing) {
  const std::string spelled = NewFile(
      "spelled.textproto",
      "defaults { all { delayed {} } weight { format: E4M3 delayed { margin: 0 "
      "} } } # the same\nname: \"another\"");
  const CommandResult result = RunCommand({"diff", "delayed_hybrid", spelled});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "");
}

TEST(DiffTest, NamesEveryFieldThatDiffers) {
  const std::string a =
      NewFile("a.textproto",
              "defaults { all { delayed {} } }\n"
              "rule { module: \"x\\\\.y\" weight { current {} } }");
  const std::string b = NewFile(
      "b.textproto",
      "defaults { all { delayed { margin: 2 } } weight { high_precision {} } "
      "}\n"
      "matmul { dgrad { high_precision: true } }\n"
      "amax_reduction { group: \"tp\" }\n"
      "phase { from_step: 5 }");
  const CommandResult result = RunCommand({"diff", a, b});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out,
            "defaults.input.delayed.margin: 0 -> 2\n"
            "defaults.weight.scaling: delayed -> high_precision\n"
            "defaults.grad.delayed.margin: 0 -> 2\n"
            "matmul.dgrad.high_precision: false -> true\n"
            "amax_reduction.group: \"default\" -> \"tp\"\n"
            "rule[0].module: \"x\\\\.y\" -> (none)\n"
            "rule[0].weight.scaling: current -> (none)\n"
            "phase[0].from_step: (none) -> 5\n");
}

TEST(DiffTest, TroubleGivesExitCode2) {
  EXPECT_EQ(RunCommand({"diff", "tensorwise"}).exit_code, 2);
  EXPECT_EQ(RunCommand({"diff", "tensorwise", "/no/such"}).exit_code, 2);
  const std::string bad = NewFile("bad.textproto", "defaults { }");
  const CommandResult result = RunCommand({"diff", bad, "tensorwise"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("bad.textproto:1:1: error: "));
}

}  // namespace
}  // namespace scalekeeper
