// `scalekeeper simulate` against an oracle that shares no code with the
// library, on small traces and on the recorded ones.
#include "tools/simulate.h"

#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/delayed_oracle.h"
#include "tests/testing/status_matchers.h"
#include "tools/command.h"

namespace scalekeeper {
namespace {

using ::testing::HasSubstr;

// The scales_csv of the recipe `text` on `traces`, one per rank.
std::string Scales(const std::string& text,
                   const std::vector<std::string>& traces) {
  const auto recipe = Recipe::Parse(text, "test.textproto");
  EXPECT_THAT(recipe, IsOk());
  std::vector<Trace> ranks;
  for (const std::string& csv : traces) {
    auto trace = ParseTraceCsv(csv, "test.csv");
    EXPECT_THAT(trace, IsOk());
    ranks.push_back(*std::move(trace));
  }
  auto simulation = Simulate(*recipe, ranks);
  EXPECT_THAT(simulation, IsOk());
  return simulation->scales_csv;
}

std::string Delayed(const std::string& options) {
  return "defaults { all { format: E4M3 delayed { " + options + " } } }";
}

TEST(SimulateTest, PrintsTheScaleBeforeTheUpdateOfEachStep) {
  // numerics.md section 3: N=4, steps 1 8 2 3 0.5 4. The first step measures.
  EXPECT_EQ(Scales(Delayed("amax_history_len: 4"),
                   {"step,loss,a/input\n0,9,1\n1,9,8\n2,9,2\n3,9,3\n4,9,0.5\n"
                    "5,9,4\n6,9,1\n"}),
            "step,a/input\n0,448\n1,448\n2,56\n3,56\n4,56\n5,56\n6,112\n");
}

TEST(SimulateTest, MostRecent) {
  EXPECT_EQ(
      Scales(Delayed("amax_history_len: 4 amax_compute_algo: MOST_RECENT"),
             {"step,a/input\n0,1\n1,8\n2,3\n3,4\n"}),
      "step,a/input\n0,448\n1,448\n2,56\n3,149.333328\n");
}

TEST(SimulateTest, UnitStartsWithOne) {
  EXPECT_EQ(Scales(Delayed("first_step: UNIT"), {"step,a/input\n0,8\n1,8\n"}),
            "step,a/input\n0,1\n1,56\n");
}

TEST(SimulateTest, MeasureTakesTheMarginAndRankZerosOwnAmax) {
  EXPECT_EQ(Scales(Delayed("margin: 1"),
                   {"step,a/input\n0,1\n1,1\n", "step,a/input\n0,4\n1,1\n"}),
            "step,a/input\n0,224\n1,56\n");
}

TEST(SimulateTest, MeasuresUntilAnUpdateHasSetTheScale) {
  // Nothing observed, then a NaN, then a value: each first use measures, or has
  // nothing to measure and takes the initial scale.
  EXPECT_EQ(Scales(Delayed(""), {"step,a/input\n0,\n1,nan\n2,8\n3,1\n"}),
            "step,a/input\n0,1\n1,1\n2,56\n3,56\n");
}

TEST(SimulateTest, WithoutReductionOnlyRankZeroCounts) {
  EXPECT_EQ(Scales(Delayed("") + " amax_reduction { enabled: false }",
                   {"step,a/input\n0,2\n1,2\n", "step,a/input\n0,8\n1,8\n"}),
            "step,a/input\n0,224\n1,224\n");
}

TEST(SimulateTest, NonFiniteAmaxesOfAnyRankFollowThePolicy) {
  const std::vector<std::string> traces = {"step,a/input\n0,8\n1,8\n2,8\n",
                                           "step,a/input\n0,8\n1,inf\n2,8\n"};
  EXPECT_EQ(Scales(Delayed(""), traces), "step,a/input\n0,56\n1,56\n2,56\n");
  EXPECT_EQ(Scales(Delayed("non_finite_amax: BACK_OFF"), traces),
            "step,a/input\n0,56\n1,56\n2,28\n");
}

TEST(SimulateTest, CurrentScalingIsOfRankZerosOwnAmax) {
  EXPECT_EQ(Scales("defaults { all { current { power_2_scale: true } } }",
                   {"step,a/input,a/grad\n0,3,2\n1,,2\n2,nan,2\n",
                    "step,a/input,a/grad\n0,8,2\n1,8,2\n2,8,2\n"}),
            "step,a/input,a/grad\n0,128,16384\n1,,16384\n2,1,16384\n");
}

TEST(SimulateTest, HighPrecisionHasNoScale) {
  EXPECT_EQ(
      Scales("defaults { all { high_precision {} } }", {"step,a/input\n0,3\n"}),
      "step,a/input\n0,\n");
}

TEST(SimulateTest, PhasesFollowTheStepColumn) {
  EXPECT_EQ(
      Scales(Delayed("") + " phase { from_step: 0 all { high_precision {} } }"
                           " phase { from_step: 500 }",
             {"step,a/input\n498,3\n499,3\n500,8\n501,1\n502,1\n"}),
      "step,a/input\n498,\n499,\n500,56\n501,56\n502,56\n");
}

// The first `count` lines after the header, split into cells.
std::vector<std::vector<std::string>> Rows(const std::string& csv) {
  std::vector<std::vector<std::string>> rows;
  for (const auto line : absl::StrSplit(csv, '\n', absl::SkipEmpty())) {
    rows.push_back(absl::StrSplit(line, ','));
  }
  return rows;
}

TEST(SimulateTest, TheRecordedTraceGivesTheOraclesScales) {
  const std::string folder = "tests/data/traces/";
  const auto rank0 = ReadFile(folder + "amax_rank0.csv");
  const auto rank1 = ReadFile(folder + "amax_rank1.csv");
  ASSERT_THAT(rank0, IsOk());
  ASSERT_THAT(rank1, IsOk());
  const std::string recipe = R"(defaults {
    input { delayed { amax_history_len: 16 } }
    weight { delayed { amax_history_len: 1 margin: 1 } }
    grad { delayed { amax_history_len: 100 amax_compute_algo: MOST_RECENT } }
  })";
  const auto got = Rows(Scales(recipe, {*rank0, *rank1}));
  const auto own = Rows(*rank0);
  const auto other = Rows(*rank1);
  ASSERT_EQ(got.size(), 1001u);
  const size_t columns = got[0].size() - 1;
  ASSERT_EQ(columns, 99u);
  for (size_t c = 0; c < columns; ++c) {
    DelayedOracle oracle;
    const std::string& name = got[0][c + 1];
    ASSERT_EQ(name, own[0][c + 2]);
    oracle.history_len = 16;
    if (name.find("/weight") != std::string::npos) {
      oracle.history_len = 1;
      oracle.margin = 1;
    } else if (name.find("/grad") != std::string::npos) {
      oracle.history_len = 100;
      oracle.fp8_max = 57344;
      oracle.algo = DelayedOracle::Algo::kMostRecent;
    }
    for (size_t row = 1; row < got.size(); ++row) {
      const float a = std::stof(own[row][c + 2]);
      const float b = std::stof(other[row][c + 2]);
      const float scale = oracle.measure ? oracle.ScaleOf(a) : oracle.scale;
      ASSERT_EQ(got[row][c + 1], absl::StrFormat("%.9g", scale))
          << name << " at step " << got[row][0];
      oracle.Step(std::max(a, b));
    }
  }
}

int RunSimulateCommand(std::vector<std::string> args, std::string* out,
                       std::string* err) {
  args.insert(args.begin(), "simulate");
  std::ostringstream out_stream;
  std::ostringstream err_stream;
  const int code = RunScalekeeper(args, out_stream, err_stream);
  *out = out_stream.str();
  *err = err_stream.str();
  return code;
}

TEST(SimulateCommandTest, WritesTheScalesOfTheRecordedTrace) {
  const std::string path = ::testing::TempDir() + "/scales.csv";
  std::string out;
  std::string err;
  EXPECT_EQ(RunSimulateCommand({"--recipe=delayed_hybrid",
                                "--trace=tests/data/traces/amax_rank0.csv,"
                                "tests/data/traces/amax_rank1.csv",
                                "--scales_csv", path},
                               &out, &err),
            kExitOk)
      << err;
  EXPECT_THAT(out, HasSubstr("1000 steps, 99 quantizers, 2 ranks"));
  const auto written = ReadFile(path);
  ASSERT_THAT(written, IsOk());
  EXPECT_EQ(Rows(*written).size(), 1001u);
}

TEST(SimulateCommandTest, FaultsHaveTheirExitCodes) {
  std::string out;
  std::string err;
  const std::string trace = ::testing::TempDir() + "/bad.csv";
  ASSERT_THAT(WriteFile(trace, "step,a/input\n0,-1\n"), IsOk());
  const std::string scales = ::testing::TempDir() + "/none.csv";
  EXPECT_EQ(RunSimulateCommand({"--recipe=delayed_hybrid", "--trace=" + trace,
                                "--scales_csv=" + scales},
                               &out, &err),
            kExitFindings);
  EXPECT_THAT(err, HasSubstr("bad.csv:2"));
  EXPECT_THAT(ReadFile(scales),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("none.csv")));
  EXPECT_EQ(
      RunSimulateCommand({"--recipe=delayed_hybrid", "--trace=/no/such.csv",
                          "--scales_csv=" + scales},
                         &out, &err),
      kExitTrouble);
  EXPECT_THAT(err, HasSubstr("/no/such.csv"));
  EXPECT_EQ(RunSimulateCommand({"--recipe=delayed_hybrid"}, &out, &err),
            kExitTrouble);
  EXPECT_THAT(err, HasSubstr("--trace"));
}

TEST(SimulateCommandTest, NeverOverwritesItsInputs) {
  std::string out;
  std::string err;
  const std::string trace = ::testing::TempDir() + "/input.csv";
  const std::string text = "step,a/input\n0,1\n";
  ASSERT_THAT(WriteFile(trace, text), IsOk());
  EXPECT_EQ(RunSimulateCommand({"--recipe=delayed_hybrid", "--trace=" + trace,
                                "--scales_csv=" + trace},
                               &out, &err),
            kExitTrouble);
  EXPECT_THAT(err, HasSubstr("would overwrite the trace"));
  EXPECT_THAT(ReadFile(trace), IsOkAndHolds(text));
}

}  // namespace
}  // namespace scalekeeper
