// Damaged recipes: whatever the bytes, the answer is a Status.
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "recipe/recipe.h"

namespace scalekeeper {
namespace {

constexpr char kEverything[] =
    R"text(name: "n" description: "d\n" schema_version: 1
defaults { all { format: E4M3 delayed { margin: 1 amax_history_len: 16 } } }
rule { module: "layers\\.(0|31)\\..*" all { high_precision { dtype: FP32 } } }
rule { layers { pattern: "l\\.(\\d+)" first: 1 last_percent: 12.5 }
       input { current { amax_epsilon: 1e-4 power_2_scale: true } } }
rule: [{ module: "a" amax_reduction { enabled: false } optional: true }]
matmul { fprop { fast_accum: true } dgrad { high_precision: true } }
amax_reduction { enabled: true group: "tp" }
update { interval: 4 staleness: 1 }
phase { from_step: 5 grad { delayed { non_finite_amax: BACK_OFF } }
        rule { module: "b" all { delayed { first_step: UNIT } } } }
rule { module: "c" input { nvfp4 { random_hadamard: true amax_group: "g" } }
       weight { block { block_shape: B128X128 } }
       grad { nvfp4 { random_hadamard: true stochastic_rounding: true seed: 3 } }
       matmul { wgrad { emulate: true } } }
rule { module: "d" all { custom { factory: "f" parameters {
       fields { key: "a" value { list_value { values { number_value: -.5e1 }
                values { struct_value { fields { key: "" value {
                string_value: "\u00e9" } } } } } } } } } } }
rule { module: "e" all { mxfp8 { scale_rounding: OCP_FLOOR } }
       weight { rowwise { power_2_scale: true } } }
)text";

// Loads and, when that works, does everything else that reads the recipe.
// Returns whether it loaded.
bool Exercise(const std::string& text) {
  absl::StatusOr<Recipe> recipe = Recipe::Parse(text, "r");
  if (!recipe.ok()) {
    EXPECT_EQ(recipe.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(recipe.status().message().substr(0, 2), "r:") << recipe.status();
    return false;
  }
  recipe->Resolve({"layers.0.fc", "l.1", "l.2", "a", "b"}).IgnoreError();
  absl::StatusOr<Recipe> again = Recipe::Parse(recipe->ToString(), "again");
  EXPECT_TRUE(again.ok()) << again.status() << "\n" << recipe->ToString();
  if (again.ok()) {
    EXPECT_EQ(again->fingerprint(), recipe->fingerprint());
  }
  return true;
}

TEST(MutationTest, EveryTruncationIsHandled) {
  const std::string text = kEverything;
  ASSERT_TRUE(Exercise(text));
  for (size_t length = 0; length < text.size(); ++length) {
    Exercise(text.substr(0, length));
  }
}

TEST(MutationTest, RandomDamageIsHandled) {
  std::vector<std::string> texts = {kEverything};
  for (const std::string& name : Recipe::PresetNames()) {
    texts.push_back(*Recipe::PresetText(name));
  }
  static const char* const kSnippets[] = {"{",
                                          "}",
                                          "[",
                                          "]",
                                          "<",
                                          ">",
                                          ":",
                                          "\"",
                                          "'",
                                          "#",
                                          "\\",
                                          ";",
                                          ",",
                                          "-",
                                          "999999999999999999999999",
                                          "nan",
                                          "-inf",
                                          "1e999",
                                          "E5M2",
                                          "all { delayed {} }",
                                          "(",
                                          ")",
                                          "*",
                                          "rule {",
                                          "\xff",
                                          "optional: true",
                                          "from_step: -1",
                                          "0x",
                                          "1f"};
  std::mt19937 random(4242);
  int loaded = 0;
  for (int i = 0; i < 6000; ++i) {
    std::string text = texts[random() % texts.size()];
    for (int damage = 1 + static_cast<int>(random() % 3); damage > 0;
         --damage) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random() % 256);
          break;
        case 1:
          text.erase(at, 1 + random() % 8);
          break;
        case 2:
          text.insert(at, kSnippets[random() % std::size(kSnippets)]);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 40));
          break;
      }
      if (text.empty()) text = " ";
    }
    loaded += Exercise(text) ? 1 : 0;
  }
  // Both outcomes must occur, or the test tests nothing.
  EXPECT_GT(loaded, 100);
  EXPECT_LT(loaded, 5900);
}

}  // namespace
}  // namespace scalekeeper
