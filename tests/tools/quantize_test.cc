// `scalekeeper quantize`, through the program's own entry point.
#include "tools/quantize.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"
#include "tools/command.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

class QuantizeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(
        ::testing::TempDir(), "/",
        ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    out_ = folder_ + "/out";
  }

  std::string Write(const std::string& name, const std::string& contents) {
    const std::string path = folder_ + "/" + name;
    EXPECT_THAT(WriteFile(path, contents), IsOk());
    return path;
  }
  std::string WriteFloats(const std::vector<float>& values) {
    std::string bytes(values.size() * 4, '\0');
    if (!values.empty()) {
      std::memcpy(bytes.data(), values.data(), bytes.size());
    }
    return Write("x.bin", bytes);
  }
  std::string Result(const std::string& name) {
    const absl::StatusOr<std::string> contents = ReadFile(out_ + "/" + name);
    EXPECT_THAT(contents, IsOk());
    return contents.value_or("");
  }
  float ResultFloat(const std::string& name) {
    const std::string bytes = Result(name);
    float value = 0;
    EXPECT_EQ(bytes.size(), 4u);
    std::memcpy(&value, bytes.data(), 4);
    return value;
  }

  // Runs with these flags over the defaults; a later flag of a name wins.
  int Run(const std::string& recipe, const std::string& input,
          const std::string& shape, std::vector<std::string> flags = {}) {
    std::vector<std::string> args = {
        "quantize",         "--recipe=" + recipe, "--module=layers.3.fc1",
        "--role=input",     "--input=" + input,   "--dtype=fp32",
        "--shape=" + shape, "--out=" + out_};
    for (const std::string& flag : flags) {
      const std::string name = flag.substr(0, flag.find('=') + 1);
      for (std::string& arg : args) {
        if (absl::StartsWith(arg, name)) arg = flag;
      }
      if (std::find(args.begin(), args.end(), flag) == args.end()) {
        args.push_back(flag);
      }
    }
    stdout_.str("");
    stderr_.str("");
    return RunScalekeeper(args, stdout_, stderr_);
  }
  std::string RecipeFile(const std::string& text) {
    return Write("r.textproto", text);
  }

  std::string folder_, out_;
  std::ostringstream stdout_, stderr_;
};

TEST_F(QuantizeTest, DelayedMeasuresByDefaultAndWritesBothLayouts) {
  ASSERT_EQ(Run("delayed_hybrid", WriteFloats({1, -2, 3, 0.5, 0, 448}), "2x3"),
            kExitOk)
      << stderr_.str();
  const std::string codes = Result("codes.bin");
  const std::string turned = Result("codes_t.bin");
  EXPECT_EQ(codes, std::string("\x38\xC0\x44\x30\x00\x7E", 6));
  EXPECT_EQ(turned, std::string("\x38\x30\xC0\x00\x44\x7E", 6));
  EXPECT_EQ(ResultFloat("scale_inv.bin"), 1.0f);
  EXPECT_EQ(ResultFloat("scale_inv_t.bin"), 1.0f);
  const std::string info = Result("info.json");
  for (const char* member :
       {"\"format\": \"E4M3\"", "\"shape\": [2, 3]", "\"scale_shape\": [1]",
        "\"amax\": 448", "\"scale\": 1", "\"underflow\": 0",
        "\"saturation\": 0", "\"sqnr_db\": \"inf\"", "\"non_finite\": 0"}) {
    EXPECT_THAT(info, HasSubstr(member));
  }
  EXPECT_THAT(stdout_.str(), HasSubstr("delayed E4M3, scale 1, amax 448"));
  EXPECT_EQ(stderr_.str(), "");
}

TEST_F(QuantizeTest, FirstStepUnitAndMargin) {  // L12
  const std::string x = WriteFloats({0.0009f, 0.005f, -0.02f});
  const std::string recipe = RecipeFile(
      "defaults { all { format: E4M3 delayed { first_step: UNIT } } }");
  ASSERT_EQ(Run(recipe, x, "1x3"), kExitOk) << stderr_.str();
  EXPECT_EQ(Result("codes.bin"), std::string("\x00\x03\x8A", 3));
  ASSERT_EQ(Run("delayed_hybrid", x, "1x3"), kExitOk);
  EXPECT_EQ(Result("codes.bin"), std::string("\x5A\x6E\xFE", 3));
  const std::string margin =
      RecipeFile("defaults { all { format: E4M3 delayed { margin: 1 } } }");
  ASSERT_EQ(Run(margin, WriteFloats({1}), "1x1"), kExitOk);
  EXPECT_EQ(ResultFloat("scale_inv.bin"), 1.0f / 224);
}

TEST_F(QuantizeTest, GradIsE5M2UnderHybridAndCurrentScalesItself) {
  const std::string x = WriteFloats({2.0f});
  ASSERT_EQ(Run("delayed_hybrid", x, "1x1", {"--role=grad"}), kExitOk);
  EXPECT_EQ(ResultFloat("scale_inv.bin"), 1.0f / 28672);
  EXPECT_THAT(Result("info.json"), HasSubstr("\"format\": \"E5M2\""));
  const std::string current = RecipeFile(
      "defaults { all { format: E4M3 current { power_2_scale: true } } }");
  ASSERT_EQ(Run(current, WriteFloats({3.0f}), "1x1"), kExitOk);
  EXPECT_EQ(ResultFloat("scale_inv.bin"), 0x1p-7f);
}

TEST_F(QuantizeTest, SixteenBitInputs) {
  const std::string bf16 = Write("b", std::string("\x80\x3F\x00\xC0", 4));
  ASSERT_EQ(Run("tensorwise", bf16, "2x1", {"--dtype=bf16"}), kExitOk);
  EXPECT_EQ(ResultFloat("scale_inv.bin"), 1.0f / 224);  // 1, -2
  EXPECT_EQ(Result("codes.bin"), std::string("\x76\xFE", 2));
  const std::string fp16 = Write("h", std::string("\x00\x3C\x00\xC0", 4));
  ASSERT_EQ(Run("tensorwise", fp16, "2x1", {"--dtype=fp16"}), kExitOk);
  EXPECT_EQ(Result("codes.bin"), std::string("\x76\xFE", 2));
}

TEST_F(QuantizeTest, HighPrecisionWritesValuesAndNoScale) {
  ASSERT_EQ(Run("high_precision", WriteFloats({1, -2, 3, 4}), "2x2"), kExitOk);
  EXPECT_EQ(Result("codes.bin"),
            std::string("\x80\x3F\x00\xC0\x40\x40\x80\x40", 8));
  EXPECT_EQ(Result("codes_t.bin"),
            std::string("\x80\x3F\x40\x40\x00\xC0\x80\x40", 8));
  EXPECT_EQ(Result("scale_inv.bin"), "");
  EXPECT_THAT(Result("info.json"), AllOf(HasSubstr("\"format\": \"BF16\""),
                                         HasSubstr("\"scale\": null"),
                                         HasSubstr("\"scale_shape\": []")));
  EXPECT_THAT(stdout_.str(),
              HasSubstr("bfloat16 values and there is no scale"));
}

TEST_F(QuantizeTest, NonFiniteValuesKeepTheJsonValid) {
  ASSERT_EQ(Run("tensorwise", WriteFloats({kNaN, 1, 500, 0}), "2x2"), kExitOk);
  EXPECT_THAT(
      Result("info.json"),
      AllOf(HasSubstr("\"amax\": \"nan\""), HasSubstr("\"scale\": 1,"),
            HasSubstr("\"non_finite\": 1"), HasSubstr("\"saturation\": 0.25")));
  EXPECT_EQ(Result("codes.bin")[0] & 0x7F, 0x7F);
}

TEST_F(QuantizeTest, NoElements) {
  ASSERT_EQ(Run("delayed_hybrid", WriteFloats({}), "0x256"), kExitOk);
  EXPECT_EQ(Result("codes.bin"), "");
  EXPECT_EQ(ResultFloat("scale_inv.bin"), 1.0f);
  EXPECT_THAT(Result("info.json"), HasSubstr("\"shape\": [0, 256]"));
}

TEST_F(QuantizeTest, RulesOfOtherModulesAndPhasesApplyAsInTraining) {
  const std::string recipe = RecipeFile(
      "defaults { all { format: E4M3 delayed {} } }\n"
      "rule { module: \"head\" all { high_precision {} } }\n"
      "rule { module: \"layers\\\\.3\\\\..*\" all { format: E4M3 current {} } "
      "}\n"
      "rule { module: \"layers\\\\..*\" all { format: E4M3 delayed {} } }\n"
      "phase { from_step: 100 all { high_precision { dtype: FP16 } } }\n");
  const std::string x = WriteFloats({1});
  ASSERT_EQ(Run(recipe, x, "1x1"), kExitOk) << stderr_.str();
  EXPECT_THAT(Result("info.json"), HasSubstr("\"scaling\": \"current\""));
  ASSERT_EQ(Run(recipe, x, "1x1", {"--module=layers.4.fc1"}), kExitOk);
  EXPECT_THAT(Result("info.json"), HasSubstr("\"scaling\": \"delayed\""));
  ASSERT_EQ(Run(recipe, x, "1x1", {"--step=100"}), kExitOk);
  EXPECT_THAT(Result("info.json"), HasSubstr("\"format\": \"FP16\""));
}

TEST_F(QuantizeTest, RulesByLayerNeedAllModules) {
  const std::string recipe = RecipeFile(
      "defaults { all { format: E4M3 delayed {} } }\n"
      "rule { layers { pattern: \"layers\\\\.(\\\\d+)\\\\..*\" last: 1 }\n"
      "       all { high_precision {} } }\n");
  const std::string x = WriteFloats({1});
  EXPECT_EQ(Run(recipe, x, "1x1"), kExitTrouble);
  EXPECT_THAT(stderr_.str(), HasSubstr("want --modules=NAMES.txt"));
  ASSERT_EQ(Run(recipe, x, "1x1", {"--module=head"}), kExitOk);
  const std::string names = Write("names", "layers.3.fc1\nlayers.4.fc1\n");
  ASSERT_EQ(Run(recipe, x, "1x1", {"--modules=" + names}), kExitOk)
      << stderr_.str();
  EXPECT_THAT(Result("info.json"), HasSubstr("\"scaling\": \"delayed\""));
  EXPECT_EQ(
      Run(recipe, x, "1x1", {"--modules=" + names, "--module=layers.4.fc2"}),
      kExitTrouble);
  EXPECT_THAT(stderr_.str(), HasSubstr("did you mean \"layers.4.fc1\""));
}

TEST_F(QuantizeTest, EveryScalingWritesCompactScales) {
  struct Case {
    const char* policy;
    const char* shape;               // of the row-wise scales
    const char* shape_t;             // of the column-wise ones
    size_t codes, scales, scales_t;  // bytes
  };
  for (const Case& c : std::vector<Case>{
           {"rowwise {}", "[3, 1]", "[129, 1]", 387, 12, 516},
           {"block { block_shape: B1X128 }", "[3, 2]", "[129, 1]", 387, 24,
            516},
           {"block { block_shape: B128X128 }", "[1, 2]", "[2, 1]", 387, 8, 8},
           {"mxfp8 {}", "[3, 5]", "[129, 1]", 387, 15, 129},
           {"nvfp4 {}", "[3, 9]", "[129, 1]", 195, 27, 129}}) {
    SCOPED_TRACE(c.policy);
    const std::string recipe =
        RecipeFile("defaults { all { " + std::string(c.policy) + " } }");
    ASSERT_EQ(Run(recipe, WriteFloats(std::vector<float>(387, 3.0f)), "3x129"),
              kExitOk)
        << stderr_.str();
    EXPECT_EQ(Result("codes.bin").size(), c.codes);
    EXPECT_EQ(Result("scale_inv.bin").size(), c.scales);
    EXPECT_EQ(Result("scale_inv_t.bin").size(), c.scales_t);
    const std::string info = Result("info.json");
    EXPECT_THAT(info, HasSubstr("\"scale_shape\": " + std::string(c.shape)));
    EXPECT_THAT(info,
                HasSubstr("\"scale_shape_t\": " + std::string(c.shape_t)));
  }
  EXPECT_EQ(ResultFloat("tensor_scale_inv.bin"), 1.0f / 896);
  EXPECT_EQ(ResultFloat("tensor_scale_inv_t.bin"), 1.0f / 896);
}

TEST_F(QuantizeTest, OneOfTwoTransformedOperands) {
  const std::string x = WriteFloats(std::vector<float>(32, 1.5f));
  ASSERT_EQ(Run("nvfp4", x, "16x2", {"--role=grad", "--step=3"}), kExitOk)
      << stderr_.str();
  EXPECT_THAT(Result("info.json"), HasSubstr("\"format\": \"E2M1\""));
  EXPECT_EQ(Run("nvfp4", x, "8x4"), kExitFindings);
  EXPECT_THAT(stderr_.str(), HasSubstr("rows: got 8"));
}

TEST_F(QuantizeTest, DataThatDoesNotFitIsAFinding) {
  EXPECT_EQ(Run("tensorwise", WriteFloats({1, 2, 3}), "2x2"), kExitFindings);
  EXPECT_THAT(stderr_.str(),
              HasSubstr("got 12 bytes, want 16 for 2x2 of float32"));
  EXPECT_FALSE(std::filesystem::exists(out_));
  EXPECT_EQ(Run(RecipeFile("defaults { all { delayed { margin: -1 } } }"),
                WriteFloats({1}), "1x1"),
            kExitFindings);
  EXPECT_THAT(stderr_.str(), HasSubstr("margin: got -1"));
}

TEST_F(QuantizeTest, WrongUsageIsTrouble) {
  const std::string x = WriteFloats({1});
  const std::pair<std::string, std::string> cases[] = {
      {"--shape=1", "--shape: got \"1\""},
      {"--shape=-1x1", "--shape: got \"-1x1\""},
      {"--shape=1x1x1", "--shape: got \"1x1x1\""},
      {"--shape=4611686018427387904x4", "at most 2^40"},
      {"--role=bias", "--role: got \"bias\""},
      {"--dtype=int8", "--dtype: got \"int8\""},
      {"--step=-1", "--step: got -1"},
      {"--module=", "--module: got \"\""},
      {"--module=a\nb", "--module: got \"a\\x0ab\""},
      {"--module=\xFF", "--module: got"},
      {"--input=" + folder_ + "/none", "No such file"},
      {"--input=" + folder_, "Is a directory"},
      {"--recipe=no_such_preset", "no_such_preset"},
      {"--unknown=1", "unknown flag"}};
  for (const auto& [flag, message] : cases) {
    EXPECT_EQ(Run("tensorwise", x, "1x1", {flag}), kExitTrouble) << flag;
    EXPECT_THAT(stderr_.str(), HasSubstr(message)) << flag;
    EXPECT_FALSE(std::filesystem::exists(out_));
  }
  std::ostringstream out, err;
  EXPECT_EQ(RunScalekeeper({"quantize", "--recipe=tensorwise"}, out, err),
            kExitTrouble);
  EXPECT_THAT(err.str(), HasSubstr("want --module"));
  EXPECT_EQ(RunScalekeeper({"quantize", "--help"}, out, err), kExitOk);
  EXPECT_THAT(out.str(), HasSubstr("codes_t.bin"));
}

TEST_F(QuantizeTest, NeverOverwritesItsInput) {
  const std::string input = Write("codes.bin", std::string(4, '\0'));
  EXPECT_EQ(Run("tensorwise", input, "1x1", {"--out=" + folder_}),
            kExitTrouble);
  EXPECT_THAT(stderr_.str(), HasSubstr("would overwrite"));
  EXPECT_EQ(std::filesystem::file_size(input), 4u);
}

TEST_F(QuantizeTest, NeverRemovesItsInput) {
  const std::string input = Write("tensor_scale_inv.bin", std::string(4, '\0'));
  EXPECT_EQ(Run("tensorwise", input, "1x1", {"--out=" + folder_}),
            kExitTrouble);
  EXPECT_THAT(stderr_.str(), HasSubstr("or remove " + input));
  EXPECT_EQ(std::filesystem::file_size(input), 4u);
}

TEST_F(QuantizeTest, LeavesNoScalesOfAnEarlierRun) {
  const std::string x = WriteFloats({1});
  ASSERT_EQ(Run("nvfp4", x, "1x1", {"--role=weight"}), kExitOk)
      << stderr_.str();
  const std::string ours = out_ + "/notes.txt";
  ASSERT_THAT(WriteFile(ours, "kept"), IsOk());
  EXPECT_TRUE(std::filesystem::exists(out_ + "/tensor_scale_inv.bin"));
  ASSERT_EQ(Run("tensorwise", x, "1x1"), kExitOk) << stderr_.str();
  EXPECT_FALSE(std::filesystem::exists(out_ + "/tensor_scale_inv.bin"));
  EXPECT_FALSE(std::filesystem::exists(out_ + "/tensor_scale_inv_t.bin"));
  EXPECT_TRUE(std::filesystem::exists(ours));
}

TEST_F(QuantizeTest, AFailedWriteLeavesTheOldSet) {
  const std::string x = WriteFloats({1});
  ASSERT_EQ(Run("tensorwise", x, "1x1"), kExitOk);
  const std::string before = Result("info.json");
  // A folder where a temporary file is to be written.
  const std::string blocked =
      absl::StrCat(out_, "/scale_inv_t.bin.tmp.", getpid());
  std::filesystem::create_directories(blocked + "/full");
  EXPECT_EQ(Run("high_precision", x, "1x1"), kExitTrouble);
  EXPECT_THAT(stderr_.str(), HasSubstr("scale_inv_t.bin"));
  EXPECT_EQ(Result("info.json"), before);
  EXPECT_EQ(Result("codes.bin").size(), 1u);
  size_t entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(out_)) {
    entries += entry.is_regular_file();
  }
  EXPECT_EQ(entries, 5u);
}

TEST_F(QuantizeTest, ADirectoryThatCannotBeMadeIsTrouble) {
  const std::string x = WriteFloats({1});
  EXPECT_EQ(Run("tensorwise", x, "1x1", {"--out=" + x + "/below"}),
            kExitTrouble);
  EXPECT_THAT(stderr_.str(), HasSubstr("x.bin/below"));
}

}  // namespace
}  // namespace scalekeeper
