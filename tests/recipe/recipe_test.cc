// Loading, presets, canonical text and fingerprints.
#include "recipe/recipe.h"

#include <cstdlib>
#include <fstream>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/recipe/spec_generator.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

std::string TempFile(const std::string& name, const std::string& text) {
  const std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

std::string FingerprintOf(const std::string& text) {
  absl::StatusOr<Recipe> recipe = Recipe::Parse(text, "r");
  EXPECT_THAT(recipe, IsOk()) << text;
  return recipe.ok() ? recipe->fingerprint() : "";
}

TEST(LoadTest, ReadsAFileAndNamesItInFaults) {
  const std::string good =
      TempFile("good.textproto", "defaults { all { delayed {} } } name: \"n\"");
  absl::StatusOr<Recipe> recipe = Recipe::Load(good);
  ASSERT_THAT(recipe, IsOk());
  EXPECT_EQ(recipe->name(), "n");
  const std::string bad =
      TempFile("bad.textproto", "defaults { all { delayed { margin: 99 } } }");
  EXPECT_THAT(Recipe::Load(bad),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("bad.textproto:1:28: error: ")));
}

TEST(LoadTest, SaysWhyAFileCannotBeRead) {
  EXPECT_THAT(
      Recipe::Load("/no/such/file"),
      StatusIs(absl::StatusCode::kNotFound,
               "/no/such/file: no such file and no such preset; presets "
               "are delayed_e4m3, delayed_hybrid, high_precision, "
               "tensorwise"));
  EXPECT_THAT(Recipe::Load("delayed_hybird"),
              StatusIs(absl::StatusCode::kNotFound,
                       "delayed_hybird: no such file and no such preset, did "
                       "you mean \"delayed_hybrid\"?"));
  EXPECT_THAT(
      Recipe::Load(::testing::TempDir()),
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("cannot be read: ")));
}

TEST(LoadTest, EmptyAndBinaryFilesAreFaultsOfTheFile) {
  EXPECT_THAT(Recipe::Load(TempFile("empty", "")),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("empty:1:1: error: got an empty file")));
  EXPECT_THAT(Recipe::Load(TempFile("elf", std::string("\x7f"
                                                       "ELF\0\1",
                                                       6))),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("elf:1:5: error: got byte 0x00")));
  EXPECT_THAT(Recipe::Load(TempFile("big", std::string(50'000'000, '#'))),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("big:1:1: error: got a file of more than")));
}

TEST(PresetTest, AllLoadAreDistinctAndCalledByTheirName) {
  EXPECT_THAT(Recipe::PresetNames(),
              ElementsAre("delayed_e4m3", "delayed_hybrid", "high_precision",
                          "tensorwise"));
  std::set<std::string> fingerprints;
  for (const std::string& name : Recipe::PresetNames()) {
    absl::StatusOr<Recipe> recipe = Recipe::Load(name);
    ASSERT_THAT(recipe, IsOk());
    EXPECT_EQ(recipe->name(), name);
    EXPECT_NE(recipe->description(), "");
    EXPECT_THAT(recipe->Resolve({"layers.0.fc1", "head"}), IsOk());
    fingerprints.insert(recipe->fingerprint());
    EXPECT_THAT(Recipe::PresetText(name), IsOkAndHolds(HasSubstr("# ")));
  }
  EXPECT_EQ(fingerprints.size(), Recipe::PresetNames().size());
}

TEST(PresetTest, EmbeddedTextIsTheFile) {
  for (const std::string& name : Recipe::PresetNames()) {
    std::ifstream file("recipe/presets/" + name + ".textproto");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_THAT(Recipe::PresetText(name), IsOkAndHolds(text));
  }
}

TEST(PresetTest, UnknownNameIsNotFound) {
  EXPECT_THAT(Recipe::PresetText("fp8"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("fp8: no such")));
}

// Checkpoints and ranks compare these: a change here breaks both, and needs a
// new kNumericsVersion or a very good reason.
TEST(FingerprintTest, PinnedValues) {
  EXPECT_EQ(Recipe::Load("delayed_e4m3")->fingerprint(), "0658def652b11451");
  EXPECT_EQ(Recipe::Load("delayed_hybrid")->fingerprint(), "f2b4f3689d470224");
  EXPECT_EQ(Recipe::Load("high_precision")->fingerprint(), "58b4ae95ca04db51");
  EXPECT_EQ(Recipe::Load("tensorwise")->fingerprint(), "030802200521e42d");
  EXPECT_EQ(
      FingerprintOf(
          "defaults { all { format: E4M3 delayed { margin: 1 amax_history_len: "
          "16 amax_compute_algo: MOST_RECENT non_finite_amax: FREEZE "
          "first_step: UNIT } } }\n"
          "rule { module: \"a\\\\.b\" input { current { amax_epsilon: 1e-4 "
          "power_2_scale: true } } optional: true }\n"
          "rule { layers { pattern: \"l(\\\\d+)\" first: 1 last_percent: 12.5 "
          "} "
          "all { high_precision { dtype: FP32 } } matmul { dgrad { "
          "high_precision: true } wgrad { fast_accum: true } } }\n"
          "amax_reduction { group: \"tp\" } matmul { fprop { fast_accum: false "
          "} }\n"
          "phase { from_step: 7 amax_reduction { enabled: false } rule { "
          "module: \"x\" grad { high_precision {} } } }"),
      "fc6410a23e0b69a9");
}

TEST(FingerprintTest, IgnoresWhatChangesNoRun) {
  const std::string base = FingerprintOf(
      "defaults { all { format: E4M3 delayed { margin: 1 } } } rule { module: "
      "\"a\" all { delayed { amax_history_len: 8 } } }");
  const char* const same[] = {
      // Comments, layout, order of fields.
      "# c\nrule { all { delayed { amax_history_len: 8 } } module: 'a' }\n"
      "defaults: < all: < delayed: < margin: 0x1 > format: E4M3 > >",
      // Name, description, schema version.
      "name: \"n\" description: \"d\" schema_version: 1 defaults { all { "
      "format: E4M3 delayed { margin: 1 } } } rule { module: \"a\" all { "
      "delayed { amax_history_len: 8 } } }",
      // Roles by name; inherited and default values written out.
      "defaults { input { delayed { margin: 1 amax_history_len: 1024 } } "
      "weight "
      "{ format: E4M3 delayed { margin: 1 amax_compute_algo: MAX } } grad { "
      "format: E4M3 delayed { margin: 1 non_finite_amax: SKIP first_step: "
      "MEASURE } } } rule { module: \"a\" all { format: E4M3 delayed { margin: "
      "1 amax_history_len: 8 } } optional: false }",
      // Recipe-wide defaults written out.
      "defaults { all { format: E4M3 delayed { margin: 1 } } } rule { module: "
      "\"a\" all { delayed { amax_history_len: 8 } } } amax_reduction { "
      "enabled: true group: \"default\" } matmul { fprop { fast_accum: true } "
      "dgrad { fast_accum: false high_precision: false emulate: false } }",
  };
  for (const char* text : same) EXPECT_EQ(FingerprintOf(text), base) << text;
}

TEST(FingerprintTest, SeesEveryFieldThatBearsOnARun) {
  const std::string d = "defaults { all { format: E4M3 delayed {} } } ";
  const std::string texts[] = {
      d,
      "defaults { all { format: E4M3 current {} } }",
      "defaults { all { format: E4M3 current { power_2_scale: true } } }",
      "defaults { all { format: E4M3 current { amax_epsilon: 1e-9 } } }",
      "defaults { all { delayed {} } }",
      "defaults { all { high_precision {} } }",
      "defaults { all { high_precision { dtype: FP16 } } }",
      "defaults { all { format: E4M3 delayed { margin: 1 } } }",
      "defaults { all { format: E4M3 delayed { amax_history_len: 2 } } }",
      "defaults { all { format: E4M3 delayed { amax_compute_algo: MOST_RECENT "
      "} } }",
      "defaults { all { format: E4M3 delayed { non_finite_amax: FREEZE } } }",
      "defaults { all { format: E4M3 delayed { non_finite_amax: BACK_OFF } } }",
      "defaults { all { format: E4M3 delayed { first_step: UNIT } } }",
      d + "amax_reduction { enabled: false }",
      d + "amax_reduction { group: \"x\" }",
      d + "matmul { fprop { fast_accum: false } }",
      d + "matmul { dgrad { fast_accum: true } }",
      d + "matmul { dgrad { high_precision: true } }",
      d + "rule { module: \"a\" all { delayed {} } }",
      d + "rule { module: \"b\" all { delayed {} } }",
      d + "rule { module: \"a\" input { delayed {} } }",
      d + "rule { module: \"a\" all { delayed {} } optional: true }",
      d + "rule { module: \"a\" matmul { fprop {} } }",
      d + "rule { module: \"a\" amax_reduction {} }",
      d + "rule { layers { pattern: \"(a)\" first: 1 } all { delayed {} } }",
      d + "rule { layers { pattern: \"(a)\" last: 1 } all { delayed {} } }",
      d + "rule { layers { pattern: \"(a)\" last_percent: 1 } all { delayed {} "
          "} }",
      d + "phase { from_step: 0 }",
      d + "phase { from_step: 1 }",
      d + "phase { from_step: 1 all { delayed {} } }",
      d + "phase { from_step: 1 rule { module: \"a\" all { delayed {} } } }",
      // The order of rules decides.
      d + "rule { module: \"a\" all { delayed {} } } rule { module: \"b\" all "
          "{ "
          "current {} } }",
      d + "rule { module: \"b\" all { current {} } } rule { module: \"a\" all "
          "{ "
          "delayed {} } }",
  };
  std::set<std::string> fingerprints;
  for (const std::string& text : texts) {
    const std::string fingerprint = FingerprintOf(text);
    EXPECT_THAT(fingerprint, MatchesRegex("[0-9a-f]{16}"));
    EXPECT_TRUE(fingerprints.insert(fingerprint).second) << text;
  }
}

TEST(ToStringTest, IsCanonical) {
  absl::StatusOr<Recipe> recipe = Recipe::Parse(
      "rule { optional: true all { delayed { } } module: 'a\\\\.\"b' }\n"
      "# gone\n"
      "defaults { grad { current { amax_epsilon: 0.0001 power_2_scale: true } "
      "format: E5M2 } all { delayed { margin: 0 } } } name: 'n'",
      "r");
  ASSERT_THAT(recipe, IsOk());
  EXPECT_EQ(recipe->ToString(), R"(name: "n"
defaults {
  grad {
    format: E5M2
    current {
      power_2_scale: true
      amax_epsilon: 0.0001
    }
  }
  all {
    delayed {
      margin: 0
    }
  }
}
rule {
  module: "a\\.\"b"
  all {
    delayed {}
  }
  optional: true
}
)");
}

TEST(ToStringTest, GeneratedRecipesSurviveTheRoundTrip) {
  SpecGenerator generator(20240607);
  for (int i = 0; i < 500; ++i) {
    const RecipeSpec spec = generator.Next();
    absl::StatusOr<Recipe> made = Recipe::Create(spec);
    ASSERT_THAT(made, IsOk());
    const std::string text = made->ToString();
    absl::StatusOr<Recipe> read = Recipe::Parse(text, "r");
    ASSERT_THAT(read, IsOk()) << text;
    EXPECT_EQ(read->ToString(), text);
    EXPECT_EQ(read->spec(), spec);
    EXPECT_EQ(read->fingerprint(), made->fingerprint()) << text;
  }
}

TEST(CreateTest, ARecipeMadeInCodeEqualsItsText) {
  RecipeSpec spec;
  spec.defaults.emplace().all = PolicySpec::Delayed();
  RuleSpec& head = spec.rules.emplace_back();
  head.module = "head";
  head.all = PolicySpec::HighPrecision();
  PhaseSpec& phase = spec.phases.emplace_back();
  phase.from_step = 5;
  phase.weight = PolicySpec::Current();
  absl::StatusOr<Recipe> made = Recipe::Create(spec);
  ASSERT_THAT(made, IsOk());
  EXPECT_EQ(made->fingerprint(),
            FingerprintOf("defaults { all { delayed {} } } rule { module: "
                          "\"head\" all { high_precision {} } } phase { "
                          "from_step: 5 weight { current {} } }"));
  absl::StatusOr<ResolvedModules> resolved = made->Resolve({"head"});
  ASSERT_THAT(resolved, IsOk());
  EXPECT_EQ(resolved->at(0, 0).policy_origins[0], "rule[0]");
}

}  // namespace
}  // namespace scalekeeper
