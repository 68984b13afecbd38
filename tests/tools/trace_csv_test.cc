#include "tools/trace_csv.h"

#include <string>
#include <vector>

#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(TraceCsvTest, ReadsColumnsStepsAndAmaxes) {
  const auto trace = ParseTraceCsv(
      "step,loss,layers.0.qkv/input,head/grad\n"
      "7,1.5,0.25,nan\r\n"
      "9,nan,,inf\n",
      "t.csv");
  ASSERT_THAT(trace, IsOk());
  ASSERT_EQ(trace->columns.size(), 2u);
  EXPECT_EQ(trace->columns[0].module, "layers.0.qkv");
  EXPECT_EQ(trace->columns[0].role, Role::kInput);
  EXPECT_EQ(trace->columns[1].name, "head/grad");
  EXPECT_EQ(trace->columns[1].role, Role::kGrad);
  EXPECT_EQ(trace->steps, (std::vector<int64_t>{7, 9}));
  EXPECT_EQ(trace->at(0, 0), 0x3E800000u);
  EXPECT_GT(trace->at(0, 1), 0x7F800000u);
  EXPECT_EQ(trace->at(1, 0), kNotObserved);
  EXPECT_EQ(trace->at(1, 1), 0x7F800000u);
}

TEST(TraceCsvTest, TheLossColumnMayBeAbsent) {
  const auto trace = ParseTraceCsv("step,a/weight\n0,3\n", "t.csv");
  ASSERT_THAT(trace, IsOk());
  EXPECT_EQ(trace->at(0, 0), 0x40400000u);
}

struct FaultCase {
  const char* name;
  const char* text;
  const char* position;
  const char* message;
};

class TraceCsvFaultTest : public ::testing::TestWithParam<FaultCase> {};

TEST_P(TraceCsvFaultTest, IsNamedWithItsPosition) {
  EXPECT_THAT(ParseTraceCsv(GetParam().text, "t.csv"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(GetParam().position),
                             HasSubstr(GetParam().message))));
}

INSTANTIATE_TEST_SUITE_P(
    All, TraceCsvFaultTest,
    ::testing::Values(
        FaultCase{"Empty", "", "t.csv:1", "want \"step\""},
        FaultCase{"Binary", "\x7f\x45\x4c\x46", "t.csv:1", "want \"step\""},
        FaultCase{"OnlyAHeader", "step,a/input\n", "t.csv:2", "no step"},
        FaultCase{"NoQuantizer", "step,loss\n0,1\n", "t.csv:1", "no <module>"},
        FaultCase{"UnknownColumn", "step,loss,a/bias\n0,1,1\n", "t.csv:1",
                  "\"a/bias\": unknown column"},
        FaultCase{"RoleWithoutModule", "step,/input\n0,1\n", "t.csv:1",
                  "unknown column"},
        FaultCase{"SameColumnTwice", "step,a/input,a/input\n0,1,1\n", "t.csv:1",
                  "twice"},
        FaultCase{"TooFewCells", "step,a/input,b/input\n0,1\n", "t.csv:2",
                  "ragged row: got 2 cells, want 3"},
        FaultCase{"TooManyCells", "step,a/input\n0,1\n1,1,1\n", "t.csv:3",
                  "ragged row: got 3 cells, want 2"},
        FaultCase{"NegativeAmax", "step,a/input\n0,-0.5\n", "t.csv:2",
                  "\"a/input\": got \"-0.5\", want no negative amax"},
        FaultCase{"NegativeInfinity", "step,a/input\n0,-inf\n", "t.csv:2",
                  "want no negative amax"},
        FaultCase{"NotANumber", "step,a/input\n0,1.5x\n", "t.csv:2",
                  "got \"1.5x\", want a float32"},
        FaultCase{"Overflow", "step,a/input\n0,1e39\n", "t.csv:2",
                  "want no more than float32 holds"},
        FaultCase{"Underflow", "step,a/input\n0,1e-60\n", "t.csv:2",
                  "want 0 or what float32 holds"},
        FaultCase{"TrailingSpace", "step,a/input\n0,4e38 \n", "t.csv:2",
                  "got \"4e38 \", want a float32"},
        FaultCase{"Hexadecimal", "step,a/input\n0,0x10\n", "t.csv:2",
                  "got \"0x10\", want a float32"},
        FaultCase{"LossIsNoNumber", "step,loss,a/input\n0,foo,1\n", "t.csv:2",
                  "\"loss\": got \"foo\", want a number"},
        FaultCase{"NegativeStep", "step,a/input\n-1,1\n", "t.csv:2",
                  "\"step\": got \"-1\", want an integer >= 0"},
        FaultCase{"FractionalStep", "step,a/input\n1.5,1\n", "t.csv:2",
                  "got \"1.5\""}),
    [](const auto& info) { return info.param.name; });

std::string Written(const std::string& name, const std::string& text) {
  const std::string path = ::testing::TempDir() + "/" + name;
  EXPECT_THAT(WriteFile(path, text), IsOk());
  return path;
}

TEST(ReadTraceCsvsTest, RanksMustHaveTheSameColumns) {
  const std::string a = Written("a.csv", "step,x/input\n0,1\n");
  const std::string b = Written("b.csv", "step,y/input\n0,1\n");
  EXPECT_THAT(ReadTraceCsvs({a, b}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("b.csv"),
                             HasSubstr("got \"y/input\", want \"x/input\""))));
}

TEST(ReadTraceCsvsTest, RanksMustHaveTheSameSteps) {
  const std::string a = Written("a.csv", "step,x/input\n0,1\n1,1\n");
  const std::string b = Written("b.csv", "step,x/input\n0,1\n");
  EXPECT_THAT(
      ReadTraceCsvs({a, b}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("b.csv:3: error: got nothing, want step 1 as in")));
}

TEST(ReadTraceCsvsTest, AMissingFileIsNamed) {
  EXPECT_THAT(
      ReadTraceCsvs({"/no/such/trace.csv"}),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("/no/such/trace.csv")));
}

}  // namespace
}  // namespace scalekeeper
