// Loading, presets, canonical text and fingerprints.
#include "recipe/recipe.h"

#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/recipe/spec_generator.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
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
               "are blockwise, delayed_e4m3, delayed_hybrid, "
               "delayed_hybrid_bf16_ends, delayed_hybrid_bf16_warmup, "
               "high_precision, mxfp8, nvfp4, nvfp4_bf16_tail, rowwise, "
               "rowwise_wgrad_bf16, tensorwise"));
  EXPECT_THAT(Recipe::Load("delayed_hybird"),
              StatusIs(absl::StatusCode::kNotFound,
                       "delayed_hybird: no such file and no such preset, did "
                       "you mean \"delayed_hybrid\"?"));
  EXPECT_THAT(
      Recipe::Load(::testing::TempDir()),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("directory")));
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
  EXPECT_THAT(
      Recipe::PresetNames(),
      ElementsAre("blockwise", "delayed_e4m3", "delayed_hybrid",
                  "delayed_hybrid_bf16_ends", "delayed_hybrid_bf16_warmup",
                  "high_precision", "mxfp8", "nvfp4", "nvfp4_bf16_tail",
                  "rowwise", "rowwise_wgrad_bf16", "tensorwise"));
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

// What module `name` gets at `step`: input, weight and grad, then the GEMMs in
// high precision and those with fast accumulation, by their first letters.
std::vector<std::string> PresetSays(const std::string& preset,
                                    const std::vector<std::string>& modules,
                                    size_t module, int64_t step) {
  absl::StatusOr<Recipe> recipe = Recipe::Load(preset);
  EXPECT_THAT(recipe, IsOk());
  absl::StatusOr<ResolvedModules> resolved = recipe->Resolve(modules);
  EXPECT_THAT(resolved, IsOk());
  EXPECT_THAT(resolved->warnings(), IsEmpty());
  const ResolvedModule& m = resolved->at(recipe->ActivePhase(step), module);
  std::string high_precision, fast_accum;
  for (Gemm gemm : kGemms) {
    if (m.gemm(gemm).high_precision) high_precision += Name(gemm)[0];
    if (m.gemm(gemm).fast_accum) fast_accum += Name(gemm)[0];
  }
  return {Describe(m.policy(Role::kInput)), Describe(m.policy(Role::kWeight)),
          Describe(m.policy(Role::kGrad)), high_precision, fast_accum};
}

// Transformer Engine's Float8BlockScaling, MXFP8BlockScaling and
// NVFP4BlockScaling, torchao's rowwise and rowwise_with_gw_hp.
TEST(PresetTest, PublishedValues) {
  const auto says = [](const std::string& preset) {
    return PresetSays(preset, {"fc1"}, 0, 0);
  };
  const std::string rowwise = "rowwise E4M3 power_2_scale=true amax_epsilon=0";
  EXPECT_THAT(says("rowwise"),
              ElementsAre(rowwise, rowwise, rowwise, "", "fdw"));
  EXPECT_THAT(says("rowwise_wgrad_bf16"),
              ElementsAre(rowwise, rowwise, rowwise, "w", "fd"));
  const std::string row_block =
      "block E4M3 block_shape=B1X128 power_2_scale=true amax_epsilon=0";
  EXPECT_THAT(
      says("blockwise"),
      ElementsAre(
          row_block,
          "block E4M3 block_shape=B128X128 power_2_scale=true amax_epsilon=0",
          row_block, "", ""));
  const std::string mxfp8 =
      "mxfp8 E4M3 scale_rounding=UP two_dimensional=false";
  EXPECT_THAT(says("mxfp8"), ElementsAre(mxfp8, mxfp8, mxfp8, "", ""));
  EXPECT_THAT(
      says("nvfp4"),
      ElementsAre("nvfp4 E2M1 two_dimensional=false stochastic_rounding=false "
                  "random_hadamard=true four_over_six=false seed=0",
                  "nvfp4 E2M1 two_dimensional=true stochastic_rounding=false "
                  "random_hadamard=false four_over_six=false seed=0",
                  "nvfp4 E2M1 two_dimensional=false stochastic_rounding=true "
                  "random_hadamard=true four_over_six=false seed=0",
                  "", ""));
}

TEST(PresetTest, LayersAtTheEndsStayInBF16) {
  const std::string kBF16 = "high_precision dtype=BF16";
  for (const char* name :
       {"layers.", "decoder.layers.", "model.blocks.", "transformer.h."}) {
    std::vector<std::string> modules;
    for (int layer : {0, 10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13}) {
      modules.push_back(absl::StrCat(name, layer, ".mlp.fc1"));
    }
    modules.push_back("embedding.layers");
    for (size_t m = 0; m < modules.size(); ++m) {
      const bool first = absl::StrContains(modules[m], ".0.") ||
                         absl::StrContains(modules[m], "layers.0.");
      const bool last = absl::StrContains(modules[m], "13.");
      const bool tail = last || absl::StrContains(modules[m], "12.") ||
                        absl::StrContains(modules[m], "11.");  // ceil(2.1)
      EXPECT_EQ(
          PresetSays("delayed_hybrid_bf16_ends", modules, m, 0)[2] == kBF16,
          first || last)
          << modules[m];
      EXPECT_EQ(PresetSays("nvfp4_bf16_tail", modules, m, 0)[0] == kBF16, tail)
          << modules[m];
    }
    EXPECT_EQ(PresetSays("delayed_hybrid_bf16_ends", modules, 1, 0),
              PresetSays("delayed_hybrid", {"fc1"}, 0, 0));
    EXPECT_EQ(PresetSays("nvfp4_bf16_tail", modules, 1, 0),
              PresetSays("nvfp4", {"fc1"}, 0, 0));
  }
  // Other names: a warning, no layer in BF16.
  absl::StatusOr<ResolvedModules> r =
      Recipe::Load("nvfp4_bf16_tail")->Resolve({"stage0.fc1"});
  ASSERT_THAT(r, IsOk());
  EXPECT_THAT(r->warnings(), ElementsAre(HasSubstr("warning: rule[0].layers")));
}

TEST(PresetTest, WarmUpIsInBF16) {
  const std::vector<std::string> fc1 = {"fc1"};
  const std::string preset = "delayed_hybrid_bf16_warmup";
  EXPECT_EQ(PresetSays(preset, fc1, 0, 499)[0], "high_precision dtype=BF16");
  EXPECT_EQ(PresetSays(preset, fc1, 0, 500),
            PresetSays("delayed_hybrid", fc1, 0, 0));
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
  EXPECT_EQ(Recipe::Load("rowwise")->fingerprint(), "313dc1d1987ac03e");
  EXPECT_EQ(Recipe::Load("rowwise_wgrad_bf16")->fingerprint(),
            "5ebb0f6782a71c57");
  EXPECT_EQ(Recipe::Load("blockwise")->fingerprint(), "39fa895939c6714c");
  EXPECT_EQ(Recipe::Load("mxfp8")->fingerprint(), "f1d6b3fc991ccaa4");
  EXPECT_EQ(Recipe::Load("nvfp4")->fingerprint(), "62fa5363cc316107");
  EXPECT_EQ(Recipe::Load("nvfp4_bf16_tail")->fingerprint(), "f384dcf9dd197b48");
  EXPECT_EQ(Recipe::Load("delayed_hybrid_bf16_ends")->fingerprint(),
            "17ec475fd8a7b5f0");
  EXPECT_EQ(Recipe::Load("delayed_hybrid_bf16_warmup")->fingerprint(),
            "bd0b67371ab05cb8");
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
      "dgrad { fast_accum: false high_precision: false emulate: false } } "
      "update { interval: 1 staleness: 0 }",
  };
  for (const char* text : same) EXPECT_EQ(FingerprintOf(text), base) << text;
}

TEST(FingerprintTest, IgnoresSpellingOfTheOtherScalingsToo) {
  const std::pair<const char*, const char*> same[] = {
      {"defaults { all { block {} } }",
       "defaults { all { format: E4M3 block { power_2_scale: false } } weight "
       "{ "
       "block { block_shape: B128X128 } } input { block { amax_epsilon: 0 } } "
       "}"},
      {"defaults { all { nvfp4 {} } }",
       "defaults { all { format: E2M1 nvfp4 { two_dimensional: false "
       "stochastic_rounding: false random_hadamard: false four_over_six: false "
       "} } }"},
      {"defaults { all { mxfp8 {} } }",
       "defaults { all { format: E4M3 mxfp8 { scale_rounding: UP } } }"},
      {"defaults { all { custom { factory: 'f' } } }",
       "defaults { all { custom { factory: 'f' parameters {} } } }"},
      // The order and spelling of parameters.
      {"defaults { all { custom { factory: 'f' parameters { fields { key: 'a' "
       "value { number_value: 1 } } fields { key: 'b' value { bool_value: "
       "true } } } } } }",
       "defaults { all { custom { factory: 'f' parameters { fields { key: 'b' "
       "value { bool_value: true } } fields { key: 'a' value { number_value: "
       "1.0e0 } } } } } }"},
  };
  for (const auto& [a, b] : same) EXPECT_EQ(FingerprintOf(a), FingerprintOf(b));
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
      "defaults { all { format: E4M3 current { amax_group: 'g' } } }",
      "defaults { all { format: E4M3 rowwise {} } }",
      "defaults { all { format: E4M3 rowwise { power_2_scale: true } } }",
      "defaults { all { format: E4M3 rowwise { amax_epsilon: 1e-9 } } }",
      "defaults { all { format: E4M3 rowwise { amax_group: 'g' } } }",
      "defaults { all { format: E4M3 rowwise { amax_group: 'h' } } }",
      "defaults { all { block {} } }",
      "defaults { all { block { block_shape: B1X128 } } }",
      "defaults { all { block { block_shape: B128X128 } } }",
      "defaults { all { block { power_2_scale: true } } }",
      "defaults { all { block { amax_epsilon: 1e-9 } } }",
      "defaults { all { mxfp8 {} } }",
      "defaults { all { mxfp8 { scale_rounding: OCP_FLOOR } } }",
      "defaults { all { mxfp8 { two_dimensional: true } } }",
      "defaults { all { nvfp4 {} } }",
      "defaults { all { nvfp4 { two_dimensional: true } } }",
      "defaults { all { nvfp4 { stochastic_rounding: true } } }",
      "defaults { all { nvfp4 { stochastic_rounding: true seed: 1 } } }",
      "defaults { all { nvfp4 { four_over_six: true } } }",
      "defaults { all { nvfp4 { amax_group: 'g' } } }",
      "defaults { all { nvfp4 { random_hadamard: true } } weight { nvfp4 {} } "
      "}",
      "defaults { all { custom { factory: 'f' } } }",
      "defaults { all { custom { factory: 'g' } } }",
      "defaults { all { custom { factory: 'f' parameters { fields { key: 'a' "
      "value { number_value: 1 } } } } } }",
      "defaults { all { custom { factory: 'f' parameters { fields { key: 'a' "
      "value { string_value: '1' } } } } } }",
      d + "matmul { dgrad { emulate: true } }",
      d + "amax_reduction { enabled: false }",
      d + "amax_reduction { group: \"x\" }",
      d + "update { interval: 2 }",
      d + "update { staleness: 1 }",
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

TEST(ToStringTest, ParametersAreAStruct) {
  CustomSpec custom;
  custom.factory = "my_team.log8";
  Parameters& parameters = custom.parameters.emplace();
  parameters["bits"] = {8.0};
  parameters["empty"] = {Parameters()};
  parameters["list"] = {ParameterList{{nullptr}, {true}, {std::string("\n")}}};
  RecipeSpec spec;
  spec.defaults.emplace().all = PolicySpec::Custom(custom);
  absl::StatusOr<Recipe> recipe = Recipe::Create(spec);
  ASSERT_THAT(recipe, IsOk());
  EXPECT_EQ(recipe->ToString(), R"(defaults {
  all {
    custom {
      factory: "my_team.log8"
      parameters {
        fields {
          key: "bits"
          value {
            number_value: 8
          }
        }
        fields {
          key: "empty"
          value {
            struct_value {}
          }
        }
        fields {
          key: "list"
          value {
            list_value {
              values {
                null_value: NULL_VALUE
              }
              values {
                bool_value: true
              }
              values {
                string_value: "\n"
              }
            }
          }
        }
      }
    }
  }
}
)");
  absl::StatusOr<ResolvedModules> resolved = recipe->Resolve({"m"});
  ASSERT_THAT(resolved, IsOk());
  EXPECT_EQ(resolved->at(0, 0).policy(Role::kInput).custom.parameters,
            R"({"bits":8,"empty":{},"list":[null,true,"\u000a"]})");
}

TEST(GroupNamesTest, AreThoseThatSomethingUses) {
  const auto groups = [](const std::string& text) {
    return Recipe::Parse(text, "r")->group_names();
  };
  EXPECT_THAT(groups("defaults { all { delayed {} } }"),
              ElementsAre("default"));
  EXPECT_THAT(groups("defaults { all { delayed {} } } amax_reduction { "
                     "enabled: false }"),
              IsEmpty());
  // Nothing is delayed: nothing is reduced.
  EXPECT_THAT(groups("defaults { all { current {} } } amax_reduction { group: "
                     "'x' }"),
              IsEmpty());
  EXPECT_THAT(
      groups("defaults { all { current { amax_group: 'tp' } } weight { rowwise "
             "{ amax_group: 'rows' } } }\n"
             "rule { module: 'a' all { nvfp4 { amax_group: 'fp4' } } }\n"
             "phase { from_step: 3 amax_reduction { group: 'p' } rule { "
             "module: 'b' grad { delayed {} } amax_reduction { group: 'pr' } } "
             "}"),
      ElementsAre("default", "fp4", "p", "pr", "rows", "tp"));
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
