// Small helpers for tests of RecipeState. They end the test on an error.
#ifndef SCALEKEEPER_TESTS_AMAX_STATE_TESTING_H_
#define SCALEKEEPER_TESTS_AMAX_STATE_TESTING_H_

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "amax/communicator.h"
#include "amax/recipe_state.h"
#include "amax/slot_view.h"
#include "gtest/gtest.h"
#include "recipe/recipe.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {

inline uint32_t FloatBits(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

template <typename T>
T ValueOrDie(absl::StatusOr<T> value) {
  if (!value.ok()) {
    ADD_FAILURE() << value.status();
    std::abort();
  }
  return *std::move(value);
}

// A recipe of one delayed policy for every role: "amax_history_len: 4 ...".
inline std::string DelayedRecipe(absl::string_view options,
                                 absl::string_view rest = "") {
  return "defaults { all { format: E4M3 delayed { " + std::string(options) +
         " } } } " + std::string(rest);
}

inline Recipe ParseRecipe(const std::string& text) {
  return ValueOrDie(Recipe::Parse(text, "test.textproto"));
}

inline std::unique_ptr<RecipeState> MakeState(const std::string& recipe,
                                              RecipeStateOptions options = {}) {
  return ValueOrDie(RecipeState::Create(ParseRecipe(recipe), options));
}

// One module "m", frozen.
struct OneModule {
  explicit OneModule(const std::string& recipe, RecipeStateOptions options = {})
      : state(MakeState(recipe, std::move(options))),
        slots(ValueOrDie(state->AddModule("m"))) {}

  absl::Status Freeze() { return state->Freeze(); }
  void Observe(float amax) {
    scalekeeper::Observe(state->View(slots.input), FloatBits(amax));
  }
  // Observes into the input slot and updates.
  absl::Status Step(float amax) {
    Observe(amax);
    return state->EndStep(Stream{});
  }
  float Scale() { return ValueOrDie(state->Scale(slots.input, Stream{})); }
  std::vector<uint32_t> Window() {
    return ValueOrDie(state->Window(slots.input, Stream{}));
  }

  std::unique_ptr<RecipeState> state;
  ModuleSlots slots;
};

inline OneModule FrozenModule(const std::string& recipe,
                              RecipeStateOptions options = {}) {
  OneModule module(recipe, std::move(options));
  EXPECT_THAT(module.Freeze(), IsOk());
  return module;
}

inline std::vector<uint32_t> AsBits(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (float value : values) bits.push_back(FloatBits(value));
  return bits;
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TESTS_AMAX_STATE_TESTING_H_
