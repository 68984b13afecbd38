// `scalekeeper accuracy`, through the program's own entry point. The numbers
// themselves: accuracy_oracle_test.
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/command_testing.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kTensors[] = "tests/data/tensors/";

std::string TensorFile(const std::string& name,
                       const std::vector<float>& values) {
  std::string bytes(values.size() * 4, '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return NewFile(name, bytes);
}

CommandResult Accuracy(std::vector<std::string> args) {
  args.insert(args.begin(), "accuracy");
  return RunCommand(args);
}

TEST(AccuracyTest, TheDocumentIsWhatTheCommandWrites) {
  const std::string document = FileText("docs/accuracy.md");
  const std::vector<std::string> flags = {
      "--output=markdown", "--step=599",
      absl::StrCat("--modules=", kTensors, "modules.txt")};
  EXPECT_THAT(absl::StrReplaceAll(document, {{" \\\n  ", " "}}),
              HasSubstr(absl::StrCat("\nbazel-bin/tools/scalekeeper accuracy ",
                                     absl::StrJoin(flags, " "), " ", kTensors,
                                     "*.bf16\n")));
  std::vector<std::string> args = flags;
  for (const char* name : {"layers.0.qkv.input", "layers.4.fc2.grad",
                           "layers.4.fc2.input", "layers.4.qkv.weight"}) {
    args.push_back(absl::StrCat(kTensors, name, ".128x128.bf16"));
  }
  const CommandResult result = Accuracy(args);
  ASSERT_EQ(result.exit_code, kExitOk) << result.err;
  EXPECT_THAT(document,
              HasSubstr("<!-- what the command writes begins -->\n" +
                        result.out + "<!-- what the command writes ends -->"));
  EXPECT_EQ(Accuracy(args).out, result.out) << "the same draws each time";
}

TEST(AccuracyTest, EveryFigureOfAFewElements) {
  // Scale 1: 448 is the format's maximum; 0.0005 becomes 0, 17 becomes 16.
  const std::string x = TensorFile("m.input.2x2.fp32", {448, -17, 0.0005f, 0});
  const CommandResult json =
      Accuracy({"--recipe=tensorwise", "--output=json", x});
  ASSERT_EQ(json.exit_code, kExitOk) << json.err;
  EXPECT_THAT(json.out,
              AllOf(HasSubstr("\"recipe\": \"tensorwise\", \"module\": \"m\", "
                              "\"role\": \"input\", \"shape\": [2, 2], "
                              "\"dtype\": \"float32\", \"step\": 0"),
                    HasSubstr("\"policy\": \"current E4M3"),
                    HasSubstr("\"same\": true"),
                    HasSubstr("\"row_wise\": {\"sqnr_db\": 53.0318082"),
                    HasSubstr("\"max_error\": 0.00223214286, "),
                    HasSubstr("\"max_relative_error\": 0.0588235294, "
                              "\"underflow\": 0.333333333, \"saturation\": 0, "
                              "\"non_finite\": 0}"),
                    HasSubstr("\"column_wise\": {\"sqnr_db\": 53.0318082")));
  const CommandResult table = Accuracy({"--recipe=tensorwise", x});
  EXPECT_EQ(table.out,
            "recipe      tensor       copy  SQNR dB  error/amax  relative "
            "error  underflow %  saturated %\n"
            "tensorwise  m input 2x2  both    53.03     0.00223          "
            "0.0588       33.333        0.000\n");
}

TEST(AccuracyTest, CopiesThatDifferAndThoseThatNobodyReads) {
  // One row-wise scale makes 1 of 1 / 4096 a subnormal, a scale per column
  // none.
  const std::string x = TensorFile("m.grad.2x2.fp32", {1, 0.0001f, 1, 0.0001f});
  const std::string policy =
      NewFile("r.textproto", "defaults { all { rowwise {} } }");
  const CommandResult both = Accuracy({"--recipe=" + policy, x});
  ASSERT_EQ(both.exit_code, kExitOk) << both.err;
  EXPECT_THAT(both.out,
              AllOf(HasSubstr("row-wise "), HasSubstr("column-wise ")));
  const CommandResult one =
      Accuracy({"--recipe=rowwise_wgrad_bf16,rowwise", "--output=markdown", x});
  EXPECT_THAT(one.out, AllOf(HasSubstr("| `rowwise_wgrad_bf16` | "),
                             HasSubstr(" / - |\n| `rowwise` | ")));
  const std::string none = NewFile(
      "none.textproto",
      "defaults { all { rowwise {} } } matmul { "
      "dgrad { high_precision: true } wgrad { high_precision: true } }");
  const CommandResult unread = Accuracy({"--recipe=" + none, x});
  ASSERT_EQ(unread.exit_code, kExitOk) << unread.err;
  EXPECT_THAT(unread.out, HasSubstr(" none "));
  EXPECT_THAT(Accuracy({"--recipe=" + none, "--output=json", x}).out,
              HasSubstr("\"row_wise\": null,\n \"column_wise\": null"));
}

TEST(AccuracyTest, TensorsOfOneNameKeepTheirColumns) {
  const std::string x = TensorFile("m.input.1x1.fp32", {3});
  const CommandResult twice = Accuracy(
      {"--recipe=high_precision,tensorwise", "--output=markdown", x, x});
  EXPECT_THAT(twice.out, HasSubstr("| recipe | m input 1x1 | m input 1x1 |\n"
                                   "| --- | --- | --- |\n"
                                   "| `high_precision` | exact | exact |\n"
                                   "| `tensorwise` | "));
}

TEST(AccuracyTest, DelayedFollowsItsFirstStep) {
  const std::string x = TensorFile("m.weight.1x1.fp32", {0.0005f});
  const std::string unit =
      NewFile("unit.textproto",
              "defaults { all { format: E4M3 delayed { first_step: UNIT } } }");
  EXPECT_THAT(Accuracy({"--recipe=delayed_e4m3", x}).out,
              AllOf(HasSubstr(" exact "), HasSubstr(" 0.000 ")));
  EXPECT_THAT(Accuracy({"--recipe=" + unit, x}).out, HasSubstr(" 100.000 "));
}

TEST(AccuracyTest, HighPrecisionOfANarrowerFormat) {
  const std::string x =
      TensorFile("m.input.1x2.fp32", {1, 0x1p-30f});  // 0 in half precision
  const std::string half = NewFile(
      "half.textproto", "defaults { all { high_precision { dtype: FP16 } } }");
  EXPECT_THAT(Accuracy({"--recipe=" + half, "--output=json", x}).out,
              AllOf(HasSubstr("\"underflow\": 0.5"),
                    HasSubstr("\"max_relative_error\": 0,")));
}

TEST(AccuracyTest, NonFiniteElementsAndNoElements) {
  const std::string wild =
      TensorFile("m.input.1x3.fp32", {std::numeric_limits<float>::infinity(), 1,
                                      std::numeric_limits<float>::quiet_NaN()});
  EXPECT_THAT(
      Accuracy({"--recipe=tensorwise", "--output=json", wild}).out,
      AllOf(HasSubstr("\"sqnr_db\": \"inf\""), HasSubstr("\"non_finite\": 2")));
  // A NaN makes its whole block read back as NaN.
  EXPECT_THAT(Accuracy({"--recipe=mxfp8", "--output=json", wild}).out,
              HasSubstr("\"sqnr_db\": \"nan\", \"max_error\": \"nan\", "
                        "\"max_relative_error\": \"nan\""));
  const CommandResult empty =
      Accuracy({"--recipe=tensorwise", TensorFile("m.grad.0x5.fp32", {})});
  EXPECT_EQ(empty.exit_code, kExitOk) << empty.err;
  EXPECT_THAT(empty.out, HasSubstr("m grad 0x5  both    exact"));
}

TEST(AccuracyTest, FlagsSayWhatTheNameDoesNot) {
  const std::string x = TensorFile("dump.bin", {1, 2});
  const CommandResult named =
      Accuracy({"--recipe=delayed_hybrid", "--module=layers.3.fc1",
                "--role=grad", "--dtype=fp32", "--shape=2x1", x});
  EXPECT_EQ(named.exit_code, kExitOk) << named.err;
  EXPECT_THAT(named.out, HasSubstr("layers.3.fc1 grad 2x1"));
  const CommandResult missing =
      Accuracy({"--module=m", "--role=grad", "--dtype=fp32", x});
  EXPECT_EQ(missing.exit_code, kExitTrouble);
  EXPECT_THAT(missing.err, AllOf(HasSubstr("dump.bin"), HasSubstr("--shape")));
  // Flags win over the name.
  EXPECT_THAT(Accuracy({"--recipe=tensorwise", "--role=weight",
                        TensorFile("m.input.1x2.fp32", {1, 2})})
                  .out,
              HasSubstr("m weight 1x2"));
}

TEST(AccuracyTest, RulesByLayerNeedAllModules) {
  const std::string x =
      absl::StrCat(kTensors, "layers.4.fc2.grad.128x128.bf16");
  const CommandResult refused =
      Accuracy({"--recipe=delayed_hybrid_bf16_ends", x});
  EXPECT_EQ(refused.exit_code, kExitTrouble);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("delayed_hybrid_bf16_ends: module"),
                                 HasSubstr("want --modules=NAMES.txt")));
  EXPECT_EQ(refused.out, "");
  // Layer 4 as the last one.
  const std::string names =
      NewFile("names.txt", "layers.3.fc2\nlayers.4.fc2\n");
  EXPECT_THAT(
      Accuracy({"--recipe=delayed_hybrid_bf16_ends", "--modules=" + names, x})
          .out,
      HasSubstr(" exact "));
}

TEST(AccuracyTest, ThePhaseOfTheStep) {
  const std::string x =
      absl::StrCat(kTensors, "layers.4.fc2.grad.128x128.bf16");
  const std::string recipe = "--recipe=delayed_hybrid_bf16_warmup";
  EXPECT_THAT(Accuracy({recipe, "--step=499", x}).out, HasSubstr(" exact "));
  EXPECT_THAT(Accuracy({recipe, "--step=500", x}).out,
              Not(HasSubstr(" exact ")));
}

TEST(AccuracyTest, WrongUsageIsTrouble) {
  const std::string x = TensorFile("m.input.1x2.fp32", {1, 2});
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{}, "want a FILE"},
      {{x, x, "--role=grad"}, "--role: got 2 FILEs, want one"},
      {{x, "--step=-1"}, "--step: got -1"},
      {{x, "--shape=2"}, "--shape: got \"2\""},
      {{x, "--module="}, "--module: got \"\""},
      {{x, "--output=csv"}, "--output: got \"csv\""},
      {{x, "--recipe=tensorwise,"}, "got an empty name in \"tensorwise,\""},
      {{x, "--recipe=no_such"}, "no_such"},
      {{x + ".none"}, "want a name as"},
      {{"n.input.1x2.fp32"}, "No such file"},
      {{x, "--modules=/none"}, "/none"}};
  for (const auto& [args, message] : cases) {
    const CommandResult result = Accuracy(args);
    EXPECT_EQ(result.exit_code, kExitTrouble) << message;
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_EQ(result.out, "") << message;
  }
  const CommandResult size = Accuracy({x, "--shape=2x2"});
  EXPECT_EQ(size.exit_code, kExitFindings);
  EXPECT_THAT(size.err, HasSubstr("got 8 bytes, want 16 for 2x2 of float32"));
}

}  // namespace
}  // namespace scalekeeper
