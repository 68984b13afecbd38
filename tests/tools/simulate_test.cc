// `scalekeeper simulate` against an oracle that shares no code with the
// library, on small traces and on the recorded ones.
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/delayed_oracle.h"
#include "tests/testing/status_matchers.h"
#include "tools/command.h"
#include "tools/progress.h"

namespace scalekeeper {
namespace {

using ::testing::HasSubstr;

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

std::string Written(const std::string& name, const std::string& text) {
  const std::string path = ::testing::TempDir() + "/" + name;
  EXPECT_THAT(WriteFile(path, text), IsOk());
  return path;
}

// The scales_csv of the recipe `text` on `traces`, one per rank.
std::string Scales(const std::string& text,
                   const std::vector<std::string>& traces) {
  std::string list;
  for (size_t rank = 0; rank < traces.size(); ++rank) {
    absl::StrAppend(&list, rank == 0 ? "" : ",",
                    Written(absl::StrCat("rank", rank, ".csv"), traces[rank]));
  }
  const std::string path = ::testing::TempDir() + "/scales.csv";
  std::string out, err;
  EXPECT_EQ(RunSimulateCommand({"--recipe=" + Written("r.textproto", text),
                                "--trace=" + list, "--scales_csv=" + path},
                               &out, &err),
            kExitOk)
      << err;
  return ReadFile(path).value_or("");
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
  EXPECT_EQ(RunSimulateCommand({"--trace=" + trace}, &out, &err), kExitTrouble);
  EXPECT_THAT(err, HasSubstr("want --recipe"));
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
  EXPECT_THAT(err, HasSubstr("--scales_csv: would overwrite"));
  EXPECT_THAT(ReadFile(trace), IsOkAndHolds(text));
}

const char kRecorded[] =
    "--trace=tests/data/traces/amax_rank0.csv,"
    "tests/data/traces/amax_rank1.csv";
const char kHistograms[] =
    "--histograms=tests/data/traces/log2hist_rank0.csv,"
    "tests/data/traces/log2hist_rank1.csv";

TEST(SimulateCommandTest, RanksRecipesAndNamesTheEvent) {
  std::string out, err;
  ASSERT_EQ(RunSimulateCommand({"--recipe=delayed_hybrid,tensorwise,blockwise",
                                kRecorded, kHistograms},
                               &out, &err),
            kExitOk)
      << err;
  EXPECT_EQ(err, "");
  EXPECT_THAT(out, HasSubstr("1000 steps, 99 quantizers, 2 ranks, 3 recipes"));
  EXPECT_THAT(out, HasSubstr("event, steps 600-612: the loss jumps from "));
  EXPECT_THAT(out, HasSubstr("tensorwise loses least: it saturates no tensor"));
  EXPECT_THAT(out, HasSubstr("where ranks differ most:"));
  // What loses least stands first, what cannot be judged last.
  const size_t tensorwise = out.find("\ntensorwise ");
  const size_t hybrid = out.find("\ndelayed_hybrid ");
  const size_t blockwise = out.find("\nblockwise ");
  ASSERT_NE(blockwise, std::string::npos) << out;
  EXPECT_LT(tensorwise, hybrid);
  EXPECT_LT(hybrid, blockwise);
}

TEST(SimulateCommandTest, SweepsEveryCombinationInOrderAndWritesASummary) {
  const std::string summary = ::testing::TempDir() + "/summary.csv";
  std::string out, err;
  ASSERT_EQ(RunSimulateCommand(
                {"--recipe=delayed_hybrid", kRecorded, "--sweep=margin=0,1",
                 "--sweep", "amax_history_len=1,16,1024", "--summary_csv",
                 summary, "--output=json"},
                &out, &err),
            kExitOk)
      << err;
  EXPECT_THAT(out, HasSubstr("\"verdict\": \"delayed_hybrid margin=1 "
                             "amax_history_len="));
  const auto rows = Rows(ReadFile(summary).value_or(""));
  ASSERT_EQ(rows.size(), 1u + 6u * 100u);
  EXPECT_EQ(rows[1][0], "delayed_hybrid margin=0 amax_history_len=1");
  EXPECT_EQ(rows[1][1], "total");
  EXPECT_EQ(rows[2][1], "layers.0.qkv/input");
  EXPECT_EQ(rows[600][0], "delayed_hybrid margin=1 amax_history_len=1024");
  for (const auto& row : rows) EXPECT_EQ(row.size(), rows[0].size());
}

TEST(SimulateCommandTest, WrongSweepsAreNamed) {
  const std::string trace = Written("one.csv", "step,a/input\n0,1\n");
  const auto complain = [&](const std::string& recipe,
                            const std::vector<std::string>& sweeps) {
    std::vector<std::string> args = {"--recipe=" + recipe, "--trace=" + trace};
    args.insert(args.end(), sweeps.begin(), sweeps.end());
    std::string out, err;
    EXPECT_NE(RunSimulateCommand(args, &out, &err), kExitOk);
    EXPECT_EQ(out, "");
    return err;
  };
  EXPECT_THAT(complain("delayed_hybrid", {"--sweep=marign=1"}),
              HasSubstr("did you mean \"margin\"?"));
  EXPECT_THAT(complain("delayed_hybrid", {"--sweep=margin=x"}),
              HasSubstr("margin: got \"x\", want an integer"));
  EXPECT_THAT(complain("delayed_hybrid", {"--sweep=margin=33"}),
              HasSubstr("got 33, want 0..32"));
  EXPECT_THAT(complain("tensorwise", {"--sweep=margin=1"}),
              HasSubstr("\"tensorwise\" has no delayed policy"));
  EXPECT_THAT(
      complain("delayed_hybrid", {"--sweep=margin=1", "--sweep=margin=2"}),
      HasSubstr("got margin twice"));
}

TEST(SimulateCommandTest, OutputsHaveNamesOfTheirOwn) {
  const std::string trace = Written("one.csv", "step,a/input\n0,1\n");
  const auto complain = [&](std::vector<std::string> args) {
    args.insert(args.begin(), {"--recipe=delayed_hybrid", "--trace=" + trace});
    std::string out, err;
    EXPECT_EQ(RunSimulateCommand(args, &out, &err), kExitTrouble);
    return err;
  };
  EXPECT_THAT(complain({"--report=both", "--summary_csv=both"}),
              HasSubstr("--report and --summary_csv: got both for both"));
  EXPECT_THAT(complain({"--scales_csv="}),
              HasSubstr("--scales_csv: got an empty name"));
}

TEST(SimulateCommandTest, OneRowAndAllZerosAreTraces) {
  const std::string one = Written("one.csv", "step,a/input\n7,1\n");
  const std::string zeros =
      Written("zeros.csv", "step,loss,a/input\n0,,0\n1,,0\n2,,\n");
  std::string out, err;
  EXPECT_EQ(RunSimulateCommand({"--recipe=delayed_hybrid", "--trace=" + one},
                               &out, &err),
            kExitOk);
  EXPECT_THAT(out, HasSubstr("1 steps, 1 quantizers, 1 rank: 0 of 1 scaled"));
  EXPECT_EQ(RunSimulateCommand({"--recipe=delayed_hybrid", "--trace=" + zeros},
                               &out, &err),
            kExitOk);
  EXPECT_THAT(out, HasSubstr("3 steps, 1 quantizers, 1 rank: 0 of 0 scaled"));
  EXPECT_EQ(err, "");
}

TEST(SimulateCommandTest, ARecipeThatDoesNotFitTheTraceIsAFinding) {
  const std::string recipe =
      Written("r.textproto",
              "defaults { all { delayed {} } }\n"
              "rule { module: \"layers.b\" all { high_precision {} } }\n");
  const std::string trace = Written("t.csv", "step,layers.a/input\n0,1\n");
  std::string out, err;
  EXPECT_EQ(RunSimulateCommand({"--recipe=" + recipe, "--trace=" + trace}, &out,
                               &err),
            kExitFindings);
  EXPECT_THAT(err, HasSubstr("rule[0].module: got \"layers.b\""));
}

TEST(SimulateCommandTest, APathThatCannotBeWrittenIsTrouble) {
  const std::string trace = Written("t.csv", "step,a/input\n0,1\n");
  std::string out, err;
  for (const char* flag : {"--summary_csv", "--scales_csv", "--report"}) {
    EXPECT_EQ(RunSimulateCommand({"--recipe=delayed_hybrid", "--trace=" + trace,
                                  flag, "/no/such/folder/x"},
                                 &out, &err),
              kExitTrouble);
    EXPECT_THAT(err, HasSubstr("/no/such/folder/x: cannot be written"));
  }
}

TEST(SimulateReportTest, IsOneFileWithEverySection) {
  const std::string path = ::testing::TempDir() + "/report.html";
  std::string out, err;
  ASSERT_EQ(RunSimulateCommand({"--recipe=delayed_hybrid,tensorwise", kRecorded,
                                kHistograms, "--report=" + path},
                               &out, &err),
            kExitOk)
      << err;
  const std::string html = ReadFile(path).value_or("");
  for (const char* id :
       {"verdict", "events", "ranking", "headroom", "curves", "ranks"}) {
    EXPECT_THAT(html, HasSubstr(absl::StrCat("id=\"", id, "\"")));
  }
  EXPECT_THAT(html, HasSubstr("tensorwise loses least: it saturates no"));
  EXPECT_THAT(html, HasSubstr("<li>steps 600-612: the loss jumps"));
  EXPECT_THAT(html, HasSubstr(">steps 600-612</b>"));
  for (const char* foreign : {"http", "<script", "<link", "url(", "@import"}) {
    EXPECT_EQ(html.find(foreign), std::string::npos) << foreign;
  }
  EXPECT_LT(html.size(), 2u << 20);
}

TEST(SimulateReportTest, NamesCannotBecomeMarkup) {
  const std::string trace =
      Written("t.csv", "step,<b>&\"x\"/input\n0,1\n1,2\n");
  const std::string path = ::testing::TempDir() + "/report.html";
  std::string out, err;
  ASSERT_EQ(RunSimulateCommand({"--recipe=delayed_hybrid", "--trace=" + trace,
                                "--report=" + path},
                               &out, &err),
            kExitOk)
      << err;
  const std::string html = ReadFile(path).value_or("");
  EXPECT_THAT(html, HasSubstr("&lt;b&gt;&amp;&quot;x&quot;"));
  EXPECT_EQ(html.find("<b>&"), std::string::npos);
}

TEST(SimulateReportTest, HighPrecisionAloneHasNothingToDraw) {
  const std::string trace = Written("t.csv", "step,a/input\n0,1\n");
  const std::string path = ::testing::TempDir() + "/report.html";
  std::string out, err;
  ASSERT_EQ(RunSimulateCommand({"--recipe=high_precision", "--trace=" + trace,
                                "--report=" + path},
                               &out, &err),
            kExitOk)
      << err;
  EXPECT_THAT(ReadFile(path).value_or(""),
              HasSubstr("nothing here can be judged from amaxes"));
}

TEST(ProgressTest, DrawsABarAndIsSilentWhereNobodyLooks) {
  EXPECT_EQ(Progress::Bar("x", 50, 100),
            "x [###############...............]  50%");
  EXPECT_EQ(Progress::Bar("x", 7, 0), "x 7");
  EXPECT_EQ(Progress::Bar("x", 300, 100),
            "x [##############################] 100%");
  std::ostringstream err;
  {
    Progress progress("x", err);
    progress.Update(1, 2);
  }
  EXPECT_EQ(err.str(), "");
}

}  // namespace
}  // namespace scalekeeper
