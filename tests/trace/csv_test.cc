#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "numerics/bits.h"
#include "tests/testing/status_matchers.h"
#include "trace/csv_reader.h"
#include "trace/ranked_trace.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Written(const std::string& name, const std::string& text) {
  const std::string path = ::testing::TempDir() + "/" + name;
  EXPECT_THAT(WriteFile(path, text), IsOk());
  return path;
}

// All steps of the CSV `text`.
absl::StatusOr<std::vector<TraceStep>> Parse(const std::string& text,
                                             TraceHeader* header = nullptr) {
  SK_ASSIGN_OR_RETURN(auto reader, OpenTrace(Written("t.csv", text)));
  if (header != nullptr) *header = reader->header();
  std::vector<TraceStep> steps;
  for (;;) {
    TraceStep step;
    SK_ASSIGN_OR_RETURN(const bool more, reader->Next(&step));
    if (!more) return steps;
    steps.push_back(std::move(step));
  }
}

TEST(TraceCsvTest, ReadsColumnsStepsAndAmaxes) {
  TraceHeader header;
  const auto steps = Parse(
      "step,loss,layers.0.qkv/input,head/grad\n"
      "7,1.5,0.25,nan\r\n"
      "9,nan,,inf\n\n"
      "10,,1,-0",
      &header);
  ASSERT_THAT(steps, IsOk());
  ASSERT_EQ(header.columns.size(), 2u);
  EXPECT_TRUE(header.has_loss);
  EXPECT_EQ(header.columns[0].module, "layers.0.qkv");
  EXPECT_EQ(header.columns[0].role, Role::kInput);
  EXPECT_EQ(header.columns[1].name, "head/grad");
  EXPECT_EQ(header.columns[1].role, Role::kGrad);
  ASSERT_EQ(steps->size(), 3u);
  const TraceStep& first = (*steps)[0];
  EXPECT_EQ(first.step, 7);
  EXPECT_EQ(first.loss, 1.5);
  EXPECT_EQ(first.amax_bits[0], 0x3E800000u);
  EXPECT_GT(first.amax_bits[1], 0x7F800000u);
  const TraceStep& second = (*steps)[1];
  EXPECT_EQ(second.step, 9);
  EXPECT_TRUE(std::isnan(second.loss.value_or(0)));
  EXPECT_EQ(second.amax_bits[0], kNotObserved);
  EXPECT_EQ(second.amax_bits[1], 0x7F800000u);
  EXPECT_EQ((*steps)[2].loss, std::nullopt);
  EXPECT_EQ((*steps)[2].amax_bits[1], 0u);
}

TEST(TraceCsvTest, TheLossColumnMayBeAbsent) {
  TraceHeader header;
  const auto steps = Parse("step,a/weight\n0,3\n", &header);
  ASSERT_THAT(steps, IsOk());
  EXPECT_FALSE(header.has_loss);
  EXPECT_EQ((*steps)[0].amax_bits[0], 0x40400000u);
}

TEST(TraceCsvTest, LinesOfAnyLengthAndNumberAreRead) {
  // More than one block of the file, cut anywhere.
  std::string text = "step";
  for (int i = 0; i < 500; ++i) absl::StrAppend(&text, ",m", i, "/input");
  text += "\n";
  for (int step = 0; step < 300; ++step) {
    absl::StrAppend(&text, step);
    for (int i = 0; i < 500; ++i) absl::StrAppend(&text, ",", step + i);
    text += "\n";
  }
  const auto steps = Parse(text);
  ASSERT_THAT(steps, IsOk());
  ASSERT_EQ(steps->size(), 300u);
  for (size_t step = 0; step < 300; ++step) {
    for (size_t i = 0; i < 500; ++i) {
      const float want = static_cast<float>(step + i);
      ASSERT_EQ((*steps)[step].amax_bits[i], BitsFromFloat(want));
    }
  }
}

struct FaultCase {
  const char* name;
  const char* text;
  const char* position;
  const char* message;
};

class TraceCsvFaultTest : public ::testing::TestWithParam<FaultCase> {};

TEST_P(TraceCsvFaultTest, IsNamedWithItsPosition) {
  EXPECT_THAT(Parse(GetParam().text),
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

// Reads both to the end.
absl::Status ReadRanks(const std::vector<std::string>& paths) {
  SK_ASSIGN_OR_RETURN(RankedTrace trace, RankedTrace::Open(paths, {}));
  std::vector<TraceStep> steps;
  for (;;) {
    SK_ASSIGN_OR_RETURN(const bool more, trace.Next(&steps));
    if (!more) return absl::OkStatus();
  }
}

TEST(RankedTraceTest, RanksMustHaveTheSameColumns) {
  const std::string a = Written("a.csv", "step,x/input\n0,1\n");
  const std::string b = Written("b.csv", "step,y/input\n0,1\n");
  EXPECT_THAT(ReadRanks({a, b}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("b.csv"),
                             HasSubstr("got \"y/input\", want \"x/input\""))));
}

TEST(RankedTraceTest, RanksMustHaveTheSameSteps) {
  const std::string a = Written("a.csv", "step,x/input\n0,1\n1,1\n");
  const std::string b = Written("b.csv", "step,x/input\n0,1\n");
  EXPECT_THAT(
      ReadRanks({a, b}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("b.csv:3: error: got nothing, want step 1 as in")));
  EXPECT_THAT(
      ReadRanks({b, a}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("a.csv:3: error: got step 1, want nothing as in")));
  const std::string c = Written("c.csv", "step,x/input\n0,1\n2,1\n");
  EXPECT_THAT(ReadRanks({a, c}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("c.csv:3: error: got step 2, want step 1")));
}

TEST(RankedTraceTest, AMissingFileIsNamed) {
  EXPECT_THAT(
      ReadRanks({"/no/such/trace.csv"}),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("/no/such/trace.csv")));
}

TEST(HistogramCsvTest, RowsGoToTheirSteps) {
  const std::string trace =
      Written("t.csv", "step,a/input,b/grad\n0,1,1\n1,1,1\n2,1,1\n");
  const std::string histograms = Written(
      "h.csv", "step,quantizer,e-2,e-1,e0\n1,b/grad,5,6,7\n1,a/input,1,2,3\n");
  const auto reader = OpenTrace(trace, histograms);
  ASSERT_THAT(reader, IsOk());
  TraceStep step;
  EXPECT_THAT((*reader)->Next(&step), IsOkAndHolds(true));
  EXPECT_TRUE(step.histograms.empty());
  EXPECT_THAT((*reader)->Next(&step), IsOkAndHolds(true));
  ASSERT_EQ(step.histograms.size(), 2u);
  EXPECT_EQ(step.histograms[0].column, 1u);
  EXPECT_EQ(step.histograms[0].histogram.first_exponent, -2);
  EXPECT_EQ(step.histograms[0].histogram.counts,
            (std::vector<uint64_t>{5, 6, 7}));
  EXPECT_EQ(step.histograms[1].column, 0u);
  EXPECT_THAT((*reader)->Next(&step), IsOkAndHolds(true));
  EXPECT_TRUE(step.histograms.empty());
  EXPECT_THAT((*reader)->Next(&step), IsOkAndHolds(false));
}

TEST(HistogramCsvTest, FaultsNameTheirPlace) {
  const std::string trace = Written("t.csv", "step,a/input\n3,1\n4,1\n");
  const auto read = [&](const std::string& text) -> absl::Status {
    SK_ASSIGN_OR_RETURN(auto reader, OpenTrace(trace, Written("h.csv", text)));
    TraceStep step;
    for (;;) {
      SK_ASSIGN_OR_RETURN(const bool more, reader->Next(&step));
      if (!more) return absl::OkStatus();
    }
  };
  const auto fault = [](const char* place, const char* text) {
    return StatusIs(absl::StatusCode::kInvalidArgument,
                    AllOf(HasSubstr(place), HasSubstr(text)));
  };
  EXPECT_THAT(read("step,quantizer,e0\n3,a/input,1\n"), IsOk());
  EXPECT_THAT(read("step,q,e0\n"), fault("h.csv:1", "want a header"));
  EXPECT_THAT(read("step,quantizer,e0,e2\n"), fault("h.csv:1", "\"e2\""));
  EXPECT_THAT(read("step,quantizer,e0\n3,b/input,1\n"),
              fault("h.csv:2", "which the trace does not have"));
  EXPECT_THAT(read("step,quantizer,e0\n3,a/input,-1\n"),
              fault("h.csv:2", "want a count"));
  EXPECT_THAT(read("step,quantizer,e0\n3,a/input\n"),
              fault("h.csv:2", "ragged row"));
  EXPECT_THAT(read("step,quantizer,e0\n2,a/input,1\n"),
              fault("h.csv:2", "got 2"));
  EXPECT_THAT(read("step,quantizer,e0\n5,a/input,1\n"),
              fault("h.csv:2", "got 5"));
}

}  // namespace
}  // namespace scalekeeper
