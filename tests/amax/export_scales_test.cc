// Calibration: observe, commit, export; what a reader of the file finds.
#include "amax/export_scales.h"

#include <cstdlib>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "amax/in_process_communicator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "recipe/parameters.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/rank_threads.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::HasSubstr;

// A reader that knows JSON and nothing of the writer.
class Json {
 public:
  explicit Json(const std::string& text)
      : object_(ValueOrDie(ParseParameters(text))) {}

  const ParameterValue& at(const std::vector<std::string>& path) const {
    const Parameters* object = &object_;
    for (size_t i = 0; i + 1 < path.size(); ++i) {
      object = &std::get<Parameters>(object->at(path[i]).value);
    }
    return object->at(path.back());
  }
  bool has(const std::string& module, const std::string& slot) const {
    const auto& modules = std::get<Parameters>(object_.at("modules").value);
    const auto it = modules.find(module);
    return it != modules.end() &&
           std::get<Parameters>(it->second.value).count(slot) == 1;
  }
  std::string text(const std::vector<std::string>& path) const {
    return std::get<std::string>(at(path).value);
  }
  float number(const std::vector<std::string>& path) const {
    return static_cast<float>(std::get<double>(at(path).value));
  }
  bool boolean(const std::vector<std::string>& path) const {
    return std::get<bool>(at(path).value);
  }

 private:
  Parameters object_;
};

Json Export(const RecipeState& state) {
  return Json(ValueOrDie(ExportScales(state, Stream{})));
}

TEST(ExportScalesTest, ACalibrationGivesStaticScales) {
  OneModule m(
      DelayedRecipe("amax_history_len: 4", "name: \"quoted \\\"name\\\"\""));
  ASSERT_THAT(m.state->AddModule("zero"), IsOk());
  ASSERT_THAT(m.Freeze(), IsOk());
  for (const float amax : {2.0f, 0.7f, 3.0f}) m.Observe(amax);  // batches
  ASSERT_THAT(m.state->CommitCalibration(Stream{}), IsOk());

  const Json json = Export(*m.state);
  EXPECT_EQ(json.text({"format"}), "scalekeeper.static_scales");
  EXPECT_EQ(json.number({"version"}), 1);
  EXPECT_EQ(json.number({"step"}), 1);
  EXPECT_EQ(json.text({"recipe", "name"}), "quoted \"name\"");
  EXPECT_EQ(json.text({"recipe", "fingerprint"}),
            m.state->recipe().fingerprint());
  EXPECT_EQ(ParseRecipe(json.text({"recipe", "text"})).fingerprint(),
            m.state->recipe().fingerprint())
      << "the recipe itself is in the file";
  const std::vector<std::string> input = {"modules", "m", "input"};
  const auto field = [&](const std::string& name) {
    std::vector<std::string> path = input;
    path.push_back(name);
    return path;
  };
  EXPECT_EQ(json.text(field("format")), "E4M3");
  EXPECT_EQ(FloatBits(json.number(field("scale"))), 0x43155555u);
  EXPECT_EQ(FloatBits(json.number(field("scale_inv"))), 0x3BDB6DB7u);
  EXPECT_EQ(json.number(field("amax")), 3.0f);
  EXPECT_TRUE(json.boolean(field("calibrated")));
  EXPECT_FALSE(json.boolean({"modules", "zero", "weight", "calibrated"}));
  EXPECT_TRUE(std::holds_alternative<std::nullptr_t>(
      json.at({"modules", "zero", "weight", "amax"}).value));
  EXPECT_EQ(json.number({"modules", "zero", "weight", "scale"}), 1.0f);
}

TEST(ExportScalesTest, NumbersReadBackAsTheSameFloats) {
  for (const float amax : {1.0f, 0.1f, 3.0e-38f, 3.3e38f, 1.2345678f, 1e-45f}) {
    OneModule m = FrozenModule(DelayedRecipe("amax_history_len: 1"));
    m.Observe(amax);
    ASSERT_THAT(m.state->CommitCalibration(Stream{}), IsOk());
    const Json json = Export(*m.state);
    EXPECT_EQ(json.number({"modules", "m", "input", "scale"}), m.Scale());
    EXPECT_EQ(json.number({"modules", "m", "input", "amax"}), amax);
  }
}

TEST(ExportScalesTest, TheNewestAmaxCountsWhereTheRecipeSaysSo) {
  OneModule m = FrozenModule(
      DelayedRecipe("amax_history_len: 4 amax_compute_algo: MOST_RECENT"));
  ASSERT_THAT(m.Step(8), IsOk());
  ASSERT_THAT(m.Step(2), IsOk());
  const Json json = Export(*m.state);
  EXPECT_EQ(json.number({"modules", "m", "input", "amax"}), 2.0f);
  EXPECT_EQ(json.number({"modules", "m", "input", "scale"}), 224.0f);
}

TEST(ExportScalesTest, OnlyDelayedSlotsHaveStaticScales) {
  auto state = MakeState(
      "defaults { input { format: E4M3 delayed {} } "
      "weight { format: E4M3 current {} } grad { high_precision {} } }");
  const ModuleSlots fc1 = ValueOrDie(state->AddModule("a/b"));
  ASSERT_THAT(state->Freeze(), IsOk());
  (void)fc1;
  const Json json = Export(*state);
  EXPECT_TRUE(json.has("a/b", "input"));
  EXPECT_FALSE(json.has("a/b", "weight"));
  EXPECT_FALSE(json.has("a/b", "grad"));
}

TEST(ExportScalesTest, NothingToExportIsStillAFile) {
  OneModule m = FrozenModule("defaults { all { high_precision {} } }");
  EXPECT_FALSE(Export(*m.state).has("m", "input"));
  OneModule early(DelayedRecipe(""));
  EXPECT_THAT(ExportScales(*early.state, Stream{}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("before Freeze")));
}

TEST(CommitCalibrationTest, RanksShareWhatTheyHaveSeen) {
  auto ranks = CreateInProcessCommunicators(2);
  RunRanks(2, [&](int rank) {
    RecipeStateOptions options;
    options.groups["default"] = ranks[static_cast<size_t>(rank)].get();
    OneModule m = FrozenModule(DelayedRecipe(""), options);
    m.Observe(rank == 0 ? 2.0f : 8.0f);
    ASSERT_THAT(m.state->CommitCalibration(Stream{}), IsOk());
    EXPECT_EQ(m.Scale(), 56.0f);
  });
}

TEST(CommitCalibrationTest, AnAmaxThatIsNotFiniteIsAnError) {
  OneModule m = FrozenModule(DelayedRecipe(""));
  m.Observe(std::numeric_limits<float>::infinity());
  EXPECT_THAT(m.state->CommitCalibration(Stream{}),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("m/input")));
  EXPECT_EQ(m.Scale(), 1.0f);
}

}  // namespace
}  // namespace scalekeeper
