// scalekeeper trace convert, info
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/command_testing.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Path(const std::string& name) {
  return ::testing::TempDir() + "/" + name;
}

TEST(TraceConvertTest, GoesToTheBinaryFormAndBack) {
  const std::string csv = "tests/data/traces/amax_rank0.csv";
  const std::string histograms = "tests/data/traces/log2hist_rank0.csv";
  CommandResult result = RunCommand({"trace", "convert", csv, Path("t.sktrace"),
                                     "--histograms=" + histograms});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "1000 steps, 99 quantizers, 1386 histograms in " +
                            Path("t.sktrace") + "\n");
  result = RunCommand({"trace", "convert", Path("t.sktrace"), Path("t.csv"),
                       "--histograms_out=" + Path("h.csv"), "--output=json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, HasSubstr("\"steps\": 1000, \"quantizers\": 99, "
                                    "\"histograms\": 1386"));
  EXPECT_EQ(FileText(Path("t.csv")), FileText(csv));
  EXPECT_EQ(FileText(Path("h.csv")), FileText(histograms));
  // Both forms simulate alike.
  const std::string from_csv =
      RunCommand({"simulate", "--recipe=delayed_hybrid", "--trace=" + csv,
                  "--histograms=" + histograms})
          .out;
  EXPECT_EQ(RunCommand({"simulate", "--recipe=delayed_hybrid",
                        "--trace=" + Path("t.sktrace")})
                .out,
            from_csv);
}

TEST(TraceConvertTest, ATornTraceGivesItsStepsAndAWarning) {
  const std::string csv = NewFile("c.csv", "step,a/input\n0,1\n1,2\n2,3\n");
  ASSERT_EQ(RunCommand({"trace", "convert", csv, Path("c.sktrace")}).exit_code,
            0);
  const std::string bytes = FileText(Path("c.sktrace"));
  const std::string torn =
      NewFile("torn.sktrace", bytes.substr(0, bytes.size() - 20));
  CommandResult result = RunCommand({"trace", "convert", torn, Path("b.csv")});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, AllOf(HasSubstr("torn.sktrace: warning: torn at "),
                                HasSubstr("used: 2 steps before it")));
  EXPECT_EQ(FileText(Path("b.csv")), "step,loss,a/input\n0,,1\n1,,2\n");
  result = RunCommand({"trace", "info", torn});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("2 steps (0 to 1), 1 quantizers"));
  EXPECT_THAT(RunCommand({"trace", "info", torn, "--output=json"}).out,
              HasSubstr("\"whole\": false"));
}

TEST(TraceConvertTest, LeftOutHistogramsAreSaid) {
  const std::string csv = NewFile("c.csv", "step,a/input\n0,1\n");
  const std::string histograms =
      NewFile("h.csv", "step,quantizer,e0,e1\n0,a/input,1,2\n");
  const CommandResult result =
      RunCommand({"trace", "convert", csv, Path("again.csv"),
                  "--histograms=" + histograms});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("1 histograms are left out"));
}

TEST(TraceConvertTest, FaultsHaveTheirExitCodes) {
  const std::string csv = NewFile("bad.csv", "step,a/input\n0,-1\n");
  CommandResult result =
      RunCommand({"trace", "convert", csv, Path("none.sktrace")});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("bad.csv:2"));
  EXPECT_EQ(RunCommand({"trace", "info", Path("none.sktrace")}).exit_code, 2);
  const std::string good = NewFile("good.csv", "step,a/input\n0,1\n");
  result = RunCommand({"trace", "convert", good, good});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("would overwrite what is read"));
  EXPECT_EQ(RunCommand({"trace", "convert", good}).exit_code, 2);
  result = RunCommand({"trace", "convert", good, Path("x.sktrace"),
                       "--histograms_out=" + Path("h.csv")});
  EXPECT_EQ(result.exit_code, 2);
  result = RunCommand({"trace", "cnovert"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("did you mean \"convert\"?"));
  EXPECT_EQ(RunCommand({"trace"}).exit_code, 2);
  result = RunCommand({"trace", "info", NewFile("v.sktrace", "SKTRACE7....")});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("another version"));
}

TEST(TraceConvertTest, OneFileIsNotTwoOutputs) {
  const std::string in = NewFile("two.csv", "step,a/input\n0,1\n");
  const std::string out = ::testing::TempDir() + "/both.csv";
  const CommandResult result =
      RunCommand({"trace", "convert", in, out, "--histograms_out=" + out});
  EXPECT_EQ(result.exit_code, kExitTrouble);
  EXPECT_THAT(result.err, HasSubstr("is OUT and --histograms_out"));
  EXPECT_FALSE(std::ifstream(out).is_open());
}

}  // namespace
}  // namespace scalekeeper
