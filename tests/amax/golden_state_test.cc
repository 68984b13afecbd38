// Files of every schema version stay readable: tests/data/state.
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "amax/checkpoint.h"
#include "amax/load_state.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/data_file.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

constexpr char kRecipe[] = R"(
  name: "golden"
  defaults {
    input { format: E4M3 delayed { amax_history_len: 4 margin: 1 } }
    weight { format: E4M3 delayed { amax_history_len: 1
                                    non_finite_amax: BACK_OFF } }
    grad { format: E5M2 delayed { amax_history_len: 3
                                  amax_compute_algo: MOST_RECENT
                                  non_finite_amax: FREEZE } }
  }
  rule { module: "router" all { mxfp8 { } } }
  rule { module: "head" all { high_precision { } } }
  rule { module: "layers\\.1" amax_reduction { enabled: false } }
  phase { from_step: 3 grad { high_precision { } } }
  phase { from_step: 5 input { delayed { amax_history_len: 6 } } }
)";

// Four steps of the recipe, of all kinds of slots; some amaxes are pending.
std::unique_ptr<RecipeState> GoldenState() {
  auto state = MakeState(kRecipe);
  for (const char* module : {"layers.0", "layers.1", "router", "head"}) {
    EXPECT_THAT(state->AddModule(module, module[0] == 'r' ? "the router" : ""),
                IsOk());
  }
  EXPECT_THAT(state->Freeze(), IsOk());
  for (int step = 0; step <= 4; ++step) {
    for (int32_t slot = 0; slot < 9; ++slot) {
      const bool inf = step == 2 && slot % 3 == 1;
      Observe(state->View({slot}),
              inf ? 0x7F800000u
                  : FloatBits(static_cast<float>(slot + 1) +
                              0.25f * static_cast<float>(step)));
    }
    if (step == 4) break;
    const uint32_t skip = step == 1;
    EXPECT_THAT(state->EndStep(Stream{}, &skip), IsOk());
  }
  return state;
}

std::string Dump(const StateImage& image) {
  std::string text = absl::StrCat(
      "numerics_version ", image.numerics_version, "\nfingerprint ",
      image.recipe_fingerprint, "\nstep ", image.step, "\nupdates ",
      image.updates, "\ncollectives ", image.collectives, "\nskipped ",
      image.skipped, "\nheld ", image.held, image.held_skip, image.kept_skip,
      "\ngroups ", absl::StrJoin(image.groups, " "), "\n");
  for (const SlotImage& slot : image.slots) {
    absl::StrAppendFormat(
        &text,
        "slot %s role %s identity \"%s\" group \"%s\" amax %08X held %08X "
        "non_finite_steps %d\n",
        slot.name, Name(slot.role), slot.identity, slot.group, slot.amax_bits,
        slot.held_bits, slot.non_finite_steps);
    if (!slot.delayed.has_value()) continue;
    const DelayedImage& delayed = *slot.delayed;
    absl::StrAppendFormat(&text, "  %s scale %08X measure %d capacity %d %s\n",
                          delayed.in_use ? "in use" : "resting",
                          delayed.scale_bits, delayed.measure, delayed.capacity,
                          delayed.options.has_value()
                              ? Describe(*delayed.options)
                              : std::string("(options not known)"));
    absl::StrAppend(&text, "  window");
    for (uint32_t bits : delayed.window) {
      absl::StrAppendFormat(&text, " %08X", bits);
    }
    absl::StrAppend(&text, "\n");
  }
  return absl::StrCat(text, image.recipe);
}

void KeepOutput(const std::string& name, const std::string& bytes) {
  if (const char* folder = std::getenv("TEST_UNDECLARED_OUTPUTS_DIR")) {
    (void)WriteFile(absl::StrCat(folder, "/", name), bytes);
  }
}

TEST(GoldenStateTest, ThisProgramWritesTheNewestVersion) {
  const StateImage image = ValueOrDie(SaveState(*GoldenState(), Stream{}));
  const std::string bytes = ValueOrDie(EncodeState(image));
  const std::string name = absl::StrCat("v", kStateSchemaVersion);
  KeepOutput(name + ".state", bytes);
  KeepOutput(name + ".txt", Dump(image));
  EXPECT_EQ(ReadDataFile("state/" + name + ".state"), bytes)
      << "the format changed: it needs a new schema version, and an upgrade";
}

TEST(GoldenStateTest, EveryVersionIsReadAndGoesOn) {
  for (uint32_t version = 1; version <= kStateSchemaVersion; ++version) {
    const std::string name = absl::StrCat("state/v", version);
    const StateImage image =
        ValueOrDie(DecodeState(ReadDataFile(name + ".state")));
    EXPECT_EQ(Dump(image), ReadDataFile(name + ".txt"));
    auto expected = GoldenState();
    auto state = MakeState(kRecipe);
    for (const char* module : {"head", "router", "layers.1", "layers.0"}) {
      ASSERT_THAT(state->AddModule(module), IsOk());
    }
    ASSERT_THAT(state->Freeze(), IsOk());
    const LoadReport report =
        ValueOrDie(LoadState(image, LoadOptions(), Stream{}, state.get()));
    EXPECT_TRUE(report.same_recipe);
    for (int step = 4; step < 8; ++step) {
      ASSERT_THAT(expected->EndStep(Stream{}), IsOk());
      ASSERT_THAT(state->EndStep(Stream{}), IsOk());
    }
    const StateImage a = ValueOrDie(SaveState(*expected, Stream{}));
    const StateImage b = ValueOrDie(SaveState(*state, Stream{}));
    ASSERT_EQ(a.slots.size(), b.slots.size());
    for (size_t i = 0; i < a.slots.size(); ++i) {
      ASSERT_EQ(a.slots[i].delayed.has_value(), b.slots[i].delayed.has_value());
      if (!a.slots[i].delayed.has_value()) continue;
      EXPECT_EQ(a.slots[i].delayed->window, b.slots[i].delayed->window);
      EXPECT_EQ(a.slots[i].delayed->scale_bits, b.slots[i].delayed->scale_bits);
    }
  }
}

}  // namespace
}  // namespace scalekeeper
