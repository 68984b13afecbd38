// Golden texts of resolved recipes, and how `explain` is used.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/command_testing.h"

namespace scalekeeper {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kFolder[] = "tests/tools/golden/";

struct Golden {
  const char* name;  // of the expected file
  const char* recipe;
  std::vector<std::string> flags;
};

class GoldenTest : public ::testing::TestWithParam<Golden> {};

// To see all that changed, run `scalekeeper explain` on the same arguments.
TEST_P(GoldenTest, IsAsExpectedLineByLine) {
  std::vector<std::string> args = {
      "explain", GetParam().recipe,
      absl::StrCat("--modules=", kFolder, "modules.txt")};
  args.insert(args.end(), GetParam().flags.begin(), GetParam().flags.end());
  const CommandResult result = RunCommand(args);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::vector<std::string> want =
      absl::StrSplit(FileText(absl::StrCat(kFolder, GetParam().name)), '\n');
  const std::vector<std::string> got = absl::StrSplit(result.out, '\n');
  for (size_t i = 0; i < std::max(want.size(), got.size()); ++i) {
    EXPECT_EQ(i < got.size() ? got[i] : "(no line)",
              i < want.size() ? want[i] : "(no line)")
        << "line " << i + 1;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Recipes, GoldenTest,
    ::testing::Values(
        Golden{"delayed_hybrid.explain", "delayed_hybrid", {}},
        Golden{"rules.explain", "tests/tools/golden/rules.textproto", {}},
        Golden{"rules.explain.json",
               "tests/tools/golden/rules.textproto",
               {"--output=json"}},
        Golden{"scalings.explain", "tests/tools/golden/scalings.textproto", {}},
        Golden{"scalings.explain.json",
               "tests/tools/golden/scalings.textproto",
               {"--output=json"}},
        Golden{
            "phases.step0.explain", "tests/tools/golden/phases.textproto", {}},
        Golden{"phases.step100.explain",
               "tests/tools/golden/phases.textproto",
               {"--step", "100"}},
        Golden{"phases.step1000.explain",
               "tests/tools/golden/phases.textproto",
               {"--step=1000"}}));

TEST(ExplainTest, WarnsOfOptionalRulesThatMatchNothing) {
  const CommandResult result =
      RunCommand({"explain", absl::StrCat(kFolder, "rules.textproto"),
                  "--modules", absl::StrCat(kFolder, "modules.txt")});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err,
            "tests/tools/golden/rules.textproto:17:8: warning: rule[3].module: "
            "got \"vision\\..*\", which matches none of 7 modules\n");
}

TEST(ExplainTest, JsonEscapesNames) {
  const std::string modules = NewFile("odd.txt", "a\"b\\c\td\xc3\xa9\n");
  const CommandResult result = RunCommand(
      {"explain", "tensorwise", "--modules", modules, "--output=json"});
  EXPECT_THAT(result.out,
              HasSubstr("{\"module\": \"a\\\"b\\\\c\\u0009d\xc3\xa9\", "));
}

TEST(ExplainTest, FaultsOfTheRecipeGiveExitCode1) {
  const std::string bad = NewFile("bad.textproto", "defaults { }");
  const std::string modules = absl::StrCat(kFolder, "modules.txt");
  CommandResult result = RunCommand({"explain", bad, "--modules", modules});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              HasSubstr("bad.textproto:1:1: error: defaults.input"));
  const std::string dead =
      NewFile("dead.textproto",
              "defaults { all { delayed {} } }\nrule { module: \"heads\" all { "
              "high_precision {} } }");
  result = RunCommand({"explain", dead, "--modules", modules});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("dead.textproto:2:8: error: rule[0].module"
                                    ": got \"heads\", which matches none of 7 "
                                    "modules, nearest is \"head\""));
}

TEST(ExplainTest, WrongUsageGivesExitCode2) {
  const std::string modules = absl::StrCat(kFolder, "modules.txt");
  const std::vector<std::pair<std::vector<std::string>, std::string>> rows = {
      {{"explain", "tensorwise"}, "explain: want --modules=NAMES.txt"},
      {{"explain", "--modules", modules}, "explain: want one FILE"},
      {{"explain", "a", "b", "--modules", modules}, "explain: want one FILE"},
      {{"explain", "tensorwise", "--modules", modules, "--step=-1"},
       "explain: --step: got -1, want >= 0"},
      {{"explain", "tensorwise", "--modules", modules, "--step=x"},
       "explain: --step: got \"x\", want an integer"},
      {{"explain", "tensorwise", "--modules", modules, "--output=yaml"},
       "explain: --output: got \"yaml\", want one of table, json"},
      {{"explain", "tensorwise", "--modules", "/no/such"},
       "/no/such: cannot be read: No such file or directory"},
      {{"explain", "/no/such", "--modules", modules},
       "/no/such: no such file and no such preset"},
  };
  for (const auto& [args, message] : rows) {
    const CommandResult result = RunCommand(args);
    EXPECT_EQ(result.exit_code, 2) << message;
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_EQ(result.out, "");
  }
}

TEST(ModuleNamesTest, FaultsNameFileAndLine) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"a\nb\na\n", ":3: error: module \"a\" is on line 1 already\n"},
      {"", ":1: error: no module names\n"},
      {"# only a comment\n\n", ":1: error: no module names\n"},
      {"a\nb\xff\n", ":2: error: not UTF-8 text\n"},
  };
  for (const auto& [text, message] : rows) {
    const std::string path = NewFile("names.txt", text);
    const CommandResult result =
        RunCommand({"explain", "tensorwise", "--modules", path});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.err, path + message);
  }
}

TEST(ModuleNamesTest, BlanksCommentsCrLfAndAByteOrderMarkDoNotCount) {
  const std::string path = NewFile("names.txt",
                                   "\xef\xbb\xbf"
                                   "a\r\n\r\n# c\r\n  b  ");
  const CommandResult result = RunCommand(
      {"explain", "high_precision", "--modules", path, "--output=json"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("\n  {\"module\": \"a\", "));
  EXPECT_THAT(result.out, HasSubstr("\n  {\"module\": \"b\", "));
}

}  // namespace
}  // namespace scalekeeper
