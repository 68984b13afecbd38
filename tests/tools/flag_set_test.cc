#include "tools/flag_set.h"

#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace scalekeeper {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FlagSetTest : public ::testing::Test {
 protected:
  FlagSetTest() : flags_("try", "FILE", "Tries something.") {
    flags_.String("name", &name_, "TEXT", "a name");
    flags_.Int64("count", &count_, "N", "how many");
    flags_.Bool("fast", &fast_, "go fast");
    flags_.Choice("output", &output_, {"table", "json"}, "how to print");
  }

  std::optional<int> Parse(const std::vector<std::string>& args) {
    return flags_.Parse(args, operands_, out_, err_);
  }

  FlagSet flags_;
  std::string name_;
  int64_t count_ = 3;
  bool fast_ = false;
  std::string output_ = "table";
  std::vector<std::string> operands_;
  std::ostringstream out_, err_;
};

TEST_F(FlagSetTest, TakesValuesAfterEqualsOrAsTheNextArgument) {
  EXPECT_EQ(Parse({"a", "--name=x=y", "--count", "-7", "--fast", "b",
                   "--output=json"}),
            std::nullopt);
  EXPECT_EQ(name_, "x=y");
  EXPECT_EQ(count_, -7);
  EXPECT_TRUE(fast_);
  EXPECT_EQ(output_, "json");
  EXPECT_THAT(operands_, ElementsAre("a", "b"));
  EXPECT_TRUE(flags_.Has("name"));
}

TEST_F(FlagSetTest, KeepsDefaults) {
  EXPECT_EQ(Parse({}), std::nullopt);
  EXPECT_EQ(count_, 3);
  EXPECT_THAT(operands_, IsEmpty());
  EXPECT_FALSE(flags_.Has("count"));
}

TEST_F(FlagSetTest, BoolsHaveThreeSpellings) {
  fast_ = true;
  EXPECT_EQ(Parse({"--nofast"}), std::nullopt);
  EXPECT_FALSE(fast_);
}

TEST_F(FlagSetTest, BoolTakesItsValueAfterEqualsOnly) {
  EXPECT_EQ(Parse({"--fast=false", "false"}), std::nullopt);
  EXPECT_FALSE(fast_);
  EXPECT_THAT(operands_, ElementsAre("false"));
}

TEST_F(FlagSetTest, EverythingAfterTwoDashesIsAnOperand) {
  EXPECT_EQ(Parse({"--", "--name", "-x", "--help"}), std::nullopt);
  EXPECT_THAT(operands_, ElementsAre("--name", "-x", "--help"));
}

TEST_F(FlagSetTest, ASingleDashIsAnOperand) {
  EXPECT_EQ(Parse({"-"}), std::nullopt);
  EXPECT_THAT(operands_, ElementsAre("-"));
}

TEST_F(FlagSetTest, HelpIsOnStandardOutput) {
  EXPECT_EQ(Parse({"a", "--help", "--whatever"}), 0);
  EXPECT_EQ(
      out_.str(),
      "Usage: scalekeeper try [FLAGS] FILE\n\nTries something.\n\nFlags:\n"
      "  --name=TEXT          a name\n"
      "  --count=N            how many (default: 3)\n"
      "  --fast               go fast\n"
      "  --output=table|json  how to print (default: table)\n"
      "  --help               this text\n");
  EXPECT_EQ(err_.str(), "");
}

TEST_F(FlagSetTest, FaultsGoToStandardErrorWithExitCode2) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> rows = {
      {{"--nmae=x"}, "unknown flag --nmae, did you mean \"--name\"?"},
      {{"--noname"}, "unknown flag --noname"},
      {{"--zzzzzzz"}, "unknown flag --zzzzzzz\n"},
      {{"-n"}, "unknown flag -n, want --name"},
      {{"--name"}, "--name: got no value, want TEXT"},
      {{"--count=2.5"}, "--count: got \"2.5\", want an integer"},
      {{"--count="}, "--count: got \"\", want an integer"},
      {{"--fast=yes"}, "--fast: got \"yes\", want true or false"},
      {{"--output=xml"}, "--output: got \"xml\", want one of table, json"},
      {{"--name=a", "--name=b"}, "--name is given twice"},
      {{"--help=1"}, "--help: got \"1\", want --help without a value"},
  };
  for (const auto& [args, message] : rows) {
    FlagSet flags("try", "", "");
    std::string name, output;
    int64_t count = 0;
    bool fast = false;
    flags.String("name", &name, "TEXT", "");
    flags.Int64("count", &count, "N", "");
    flags.Bool("fast", &fast, "");
    flags.Choice("output", &output, {"table", "json"}, "");
    std::ostringstream out, err;
    EXPECT_EQ(flags.Parse(args, operands_, out, err), 2);
    EXPECT_THAT(err.str(), HasSubstr("scalekeeper try: " + message));
    EXPECT_THAT(err.str(), HasSubstr("Try 'scalekeeper try --help'.\n"));
    EXPECT_EQ(out.str(), "");
  }
}

TEST_F(FlagSetTest, ARepeatableFlagKeepsEveryValueInOrder) {
  FlagSet flags("try", "", "");
  std::vector<std::string> values;
  flags.Strings("sweep", &values, "X", "");
  std::ostringstream out, err;
  EXPECT_EQ(flags.Parse({"--sweep=b", "--sweep", "a", "--sweep="}, operands_,
                        out, err),
            std::nullopt);
  EXPECT_EQ(values, (std::vector<std::string>{"b", "a", ""}));
}

}  // namespace
}  // namespace scalekeeper
