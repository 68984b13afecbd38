// import: other stacks' options and states.
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "amax/checkpoint.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "recipe/recipe.h"
#include "recipe/recipe_diff.h"
#include "tests/testing/status_matchers.h"
#include "tests/tools/command_testing.h"

namespace scalekeeper {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

CommandResult Import(const std::string& words) {
  std::vector<std::string> args = {"import"};
  for (absl::string_view word : absl::StrSplit(words, ' ')) {
    args.emplace_back(word);
  }
  return RunCommand(args);
}

// How the imported recipe differs from a recipe file's text or a preset.
std::vector<std::string> Differences(const std::string& words,
                                     const std::string& want) {
  const CommandResult result = Import(words);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto imported = Recipe::Parse(result.out, "imported");
  const auto wanted = want.find('{') == std::string::npos
                          ? Recipe::Load(want)
                          : Recipe::Parse(want, "wanted");
  EXPECT_THAT(imported, IsOk());
  EXPECT_THAT(wanted, IsOk());
  std::vector<std::string> lines;
  if (!imported.ok() || !wanted.ok()) return {"no recipe"};
  for (const FieldDifference& d : DifferingFields(*imported, *wanted)) {
    lines.push_back(Describe(d));
  }
  return lines;
}

TEST(ImportMegatronTest, WhatTheFlagsSayIsInTheRecipe) {
  EXPECT_THAT(Differences("megatron --fp8-format hybrid "
                          "--fp8-amax-history-len 1024 "
                          "--fp8-amax-compute-algo max",
                          "delayed_hybrid"),
              IsEmpty());
  EXPECT_THAT(
      Differences("megatron --fp8-format=e4m3 --fp8-recipe delayed "
                  "--fp8-amax-history-len=1024 --fp8-amax-compute-algo=max",
                  "delayed_e4m3"),
      IsEmpty());
  EXPECT_THAT(
      Differences("megatron --fp8-format hybrid --fp8-recipe tensorwise",
                  "tensorwise"),
      IsEmpty());
  EXPECT_THAT(Differences("megatron --fp8-recipe blockwise --fp8-format e4m3",
                          "blockwise"),
              IsEmpty());
  EXPECT_THAT(
      Differences("megatron --fp8-format e4m3 --fp8-recipe mxfp8", "mxfp8"),
      IsEmpty());
  EXPECT_THAT(
      Differences("megatron --fp4-format e2m1 --fp4-recipe nvfp4", "nvfp4"),
      IsEmpty());
}

TEST(ImportMegatronTest, DefaultsAreMegatrons) {
  EXPECT_THAT(
      Differences("megatron --fp8-format e4m3",
                  "defaults { all { format: E4M3 delayed { amax_history_len: 1 "
                  "amax_compute_algo: MOST_RECENT } } }"),
      IsEmpty());
}

TEST(ImportMegatronTest, LayersWgradMarginAndGroup) {
  EXPECT_THAT(
      Differences(
          "megatron --fp8-format hybrid --fp8-margin 2 --no-fp8-wgrad "
          "--first-last-layers-bf16 --num-layers-at-start-in-bf16 2 "
          "--tp-only-amax-red",
          "defaults { input { format: E4M3 delayed { margin: 2 "
          "amax_history_len: 1 amax_compute_algo: MOST_RECENT } } weight { "
          "format: E4M3 delayed { margin: 2 amax_history_len: 1 "
          "amax_compute_algo: MOST_RECENT } } grad { format: E5M2 delayed { "
          "margin: 2 amax_history_len: 1 amax_compute_algo: MOST_RECENT } } } "
          "rule { layers { pattern: \"(?:.*\\\\.)?layers\\\\.(\\\\d+)\\\\..*\" "
          "first: 2 last: 1 } all { high_precision { } } } "
          "amax_reduction { group: \"tensor_parallel\" } "
          "matmul { fprop { fast_accum: true } dgrad { fast_accum: false } "
          "wgrad { high_precision: true } }"),
      IsEmpty());
  const CommandResult result = Import(
      "megatron --fp8-format hybrid --fp8-param-gather "
      "--tp-only-amax-red");
  EXPECT_THAT(result.err, HasSubstr("note: --fp8-param-gather: "));
  EXPECT_THAT(result.err, HasSubstr("note: --tp-only-amax-red: bind"));
}

TEST(ImportMegatronTest, WhatIsNotUnderstoodIsRefusedByName) {
  const auto error = [](const std::string& words) {
    const CommandResult result = Import("megatron " + words);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_EQ(result.out, "");
    return result.err;
  };
  EXPECT_EQ(error("--fp8-fromat hybrid"),
            "unknown flag \"--fp8-fromat\", did you mean \"--fp8-format\"?\n");
  EXPECT_EQ(error("--fp8-format hybrid --lr 1"), "unknown flag \"--lr\"\n");
  EXPECT_EQ(error("--fp8-format e5m2"),
            "--fp8-format: got \"e5m2\", want one of: e4m3, hybrid\n");
  EXPECT_EQ(error("--fp8-format hybrid --fp8-margin -1"),
            "--fp8-margin: got \"-1\", want 0..32\n");
  EXPECT_EQ(error("--fp8-format hybrid --fp8-amax-history-len"),
            "--fp8-amax-history-len: got no value, want one\n");
  EXPECT_EQ(error("--fp8-format hybrid --fp8-format e4m3"),
            "--fp8-format: was given before, want it once\n");
  EXPECT_EQ(error("--fp8-format hybrid --no-fp8-wgrad=1"),
            "--no-fp8-wgrad: got a value, want none\n");
  EXPECT_THAT(error("--fp8-margin 1"), HasSubstr("want --fp8-format or"));
  EXPECT_THAT(error("--fp8-format hybrid --num-layers-at-end-in-bf16 1"),
              HasSubstr("has no effect without --first-last-layers-bf16"));
  EXPECT_THAT(error("--fp8-format hybrid --fp8-recipe mxfp8 --fp8-margin 1"),
              HasSubstr("--fp8-margin: has no effect with mxfp8"));
}

TEST(ImportTransformerEngineTest, OptionsInAnyForm) {
  EXPECT_THAT(Differences("te", "delayed_hybrid"), IsEmpty());
  EXPECT_THAT(Differences("te fp8_format=E4M3", "delayed_e4m3"), IsEmpty());
  EXPECT_THAT(
      Differences("te DelayedScaling(margin=1, fp8_format=Format.E4M3, "
                  "amax_history_len=16, amax_compute_algo='most_recent', "
                  "reduce_amax=False, "
                  "override_linear_precision=(False, False, True))",
                  "defaults { all { format: E4M3 delayed { margin: 1 "
                  "amax_history_len: 16 amax_compute_algo: MOST_RECENT } } } "
                  "amax_reduction { enabled: false } matmul { fprop { "
                  "fast_accum: true } dgrad { fast_accum: false } wgrad { "
                  "high_precision: true } }"),
      IsEmpty());
  EXPECT_THAT(Import("te fp8_mha=True").err, HasSubstr("note: fp8_mha: "));
  EXPECT_EQ(Import("te amax_histroy_len=4").err,
            "unknown option \"amax_histroy_len\", did you mean "
            "\"amax_history_len\"?\n");
  EXPECT_THAT(Import("te scaling_factor_compute_algo=f").err,
              HasSubstr("want None"));
  EXPECT_EQ(Import("te amax_history_len=0").exit_code, 1);
}

TEST(ImportArraysTest, AStateFile) {
  const std::string json =
      NewFile("arrays.json",
              "{\"step\": 7, \"arrays\": [{\"slots\": [\"a/input\", "
              "\"a/weight\", \"\"], \"scale\": [56, 448, 1], "
              "\"amax_history\": [2,0,9, 0,1,0, 8,\"NaN\",0]}]}");
  const std::string state = NewFile("arrays.state", "");
  const CommandResult result =
      RunCommand({"import", "--output=" + state, "arrays", json});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, state + ": step 7, 2 slots\n");
  const auto image = ReadStateFile(state);
  ASSERT_THAT(image, IsOk());
  EXPECT_EQ(image->slots[0].amax_bits, 0x40000000u);
  EXPECT_EQ(image->slots[0].delayed->window,
            std::vector<uint32_t>{0x41000000u});
  EXPECT_EQ(image->slots[1].delayed->window,
            std::vector<uint32_t>{0x3F800000u});

  const std::string bad = NewFile("bad.json", "{\"arrayz\": []}");
  EXPECT_THAT(RunCommand({"import", "--output=" + state, "arrays", bad}).err,
              HasSubstr("arrayz"));
  EXPECT_EQ(RunCommand({"import", "arrays", json}).exit_code, 2);
  EXPECT_THAT(RunCommand({"import", "--output=" + json, "arrays", json}).err,
              HasSubstr("would overwrite"));
}

TEST(ImportTest, TheSourceIsWanted) {
  EXPECT_EQ(RunCommand({"import"}).exit_code, 2);
  EXPECT_THAT(RunCommand({"import", "megaton"}).err,
              HasSubstr("did you mean \"megatron\"?"));
  const std::string file = NewFile("out.textproto", "");
  EXPECT_EQ(
      RunCommand({"import", "--output", file, "te", "margin=3"}).exit_code, 0);
  EXPECT_THAT(FileText(file), HasSubstr("margin: 3"));
}

TEST(ImportTest, WhatIsGivenTwiceOrForNothingIsRefused) {
  const auto complaint = [](const std::vector<std::string>& args) {
    const CommandResult result = RunCommand(args);
    EXPECT_NE(result.exit_code, kExitOk);
    EXPECT_EQ(result.out, "");
    return result.err;
  };
  EXPECT_THAT(complaint({"import", "te", "margin=1", "margin=2"}),
              HasSubstr("\"margin\": given twice"));
  EXPECT_THAT(complaint({"import", "--output=", "te", "fp8_format=HYBRID"}),
              HasSubstr("--output: got an empty name"));
  EXPECT_THAT(complaint({"import", "--layers=l", "te", "fp8_format=HYBRID"}),
              HasSubstr("--layers: has no effect with te"));
  EXPECT_THAT(complaint({"import", "--output=x", "arrays", "/dev/zero"}),
              HasSubstr("/dev/zero: got more than"));
}

}  // namespace
}  // namespace scalekeeper
