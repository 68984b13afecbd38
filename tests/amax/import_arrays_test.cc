// States of libraries that count slots by position.
#include "amax/import_arrays.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "amax/load_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;

// What TransformerEngine does with one column, from its definition: the step's
// amax is raised into row 0; an update takes the maximum of all rows (or row
// 0), turns the rows by one and clears row 0.
struct TheirColumn {
  explicit TheirColumn(size_t len) : rows(len) {}
  void Step(float amax) {
    rows[0] = amax;
    float max = 0;
    for (float row : rows) max = std::max(max, row);
    scale = 448 / max;
    if (rows.size() > 1) {
      rows.push_back(rows[0]);
      rows.erase(rows.begin());
    }
    rows[0] = 0;
  }
  std::vector<float> rows;
  float scale = 1;
};

TEST(ImportArraysTest, GoesOnAsTheOtherLibraryWould) {
  const std::vector<float> amaxes = {1, 8, 2, 3, 0.5f, 4, 1, 1, 1, 1, 1, 1};
  for (size_t len : {1, 2, 4}) {
    for (size_t stop = 0; stop < 8; ++stop) {
      TheirColumn theirs(len);
      for (size_t i = 0; i < stop; ++i) theirs.Step(amaxes[i]);
      PositionalArrays arrays;
      arrays.slots = {"", "m/input"};
      arrays.scale = {1, theirs.scale};
      arrays.scale_inv = {1, 1 / theirs.scale};
      for (float row : theirs.rows) {
        arrays.amax_history.push_back(99);
        arrays.amax_history.push_back(row);
      }
      OneModule ours = FrozenModule(
          "defaults { all { high_precision { } } input { format: E4M3 delayed "
          "{ amax_history_len: " +
          std::to_string(len) + " } } }");
      ASSERT_THAT(LoadState(ValueOrDie(ImportArrays({arrays}, 7)),
                            LoadOptions(), Stream{}, ours.state.get()),
                  IsOk());
      EXPECT_EQ(ours.Scale(), theirs.scale);
      EXPECT_EQ(ours.state->step(), 7);
      for (size_t i = stop; i < amaxes.size(); ++i) {
        theirs.Step(amaxes[i]);
        ASSERT_THAT(ours.Step(amaxes[i]), IsOk());
        EXPECT_EQ(ours.Scale(), theirs.scale) << len << " " << stop << " " << i;
      }
    }
  }
}

TEST(ImportArraysTest, StagedAmaxesArePending) {
  PositionalArrays arrays;
  arrays.slots = {"m/input", "m/weight"};
  arrays.scale = {56, 1};
  arrays.amax_history = {16,     0,
                         /**/ 0, std::numeric_limits<float>::infinity(),
                         /**/ 8, std::nanf("")};
  const StateImage image = ValueOrDie(ImportArrays({arrays}, 0));
  EXPECT_EQ(image.slots[0].amax_bits, FloatBits(16));
  EXPECT_EQ(image.slots[0].delayed->window, AsBits({8}));
  EXPECT_THAT(image.slots[1].delayed->window, ElementsAre());
  OneModule m = FrozenModule(DelayedRecipe(""));
  LoadOptions options;
  options.allow_missing = true;
  ASSERT_THAT(LoadState(image, options, Stream{}, m.state.get()), IsOk());
  ASSERT_THAT(m.state->EndStep(Stream{}), IsOk());
  EXPECT_EQ(m.Scale(), 28);
}

TEST(ImportArraysTest, WhatDoesNotFitIsNamed) {
  PositionalArrays good;
  good.slots = {"m/input", "m/weight"};
  good.scale = {56, 1};
  good.amax_history = {0, 0};
  const auto refused = [&](void (*spoil)(PositionalArrays*)) {
    PositionalArrays arrays = good;
    spoil(&arrays);
    return ImportArrays({arrays}, 0).status();
  };
  EXPECT_THAT(refused([](PositionalArrays* a) { a->scale.push_back(1); }),
              StatusIs(kInvalidArgument,
                       "arrays[0].scale: got 3 values, want 2, one per slot"));
  EXPECT_THAT(
      refused([](PositionalArrays* a) { a->amax_history.push_back(1); }),
      StatusIs(kInvalidArgument,
               "arrays[0].amax_history: got 3 values, want rows of 2"));
  EXPECT_THAT(refused([](PositionalArrays* a) { a->slots[0] = "m/output"; }),
              StatusIs(kInvalidArgument, HasSubstr("slot \"m/output\": want")));
  EXPECT_THAT(refused([](PositionalArrays* a) { a->slots[0] = "m/weight"; }),
              StatusIs(kInvalidArgument, HasSubstr("want each name once")));
  EXPECT_THAT(refused([](PositionalArrays* a) { a->scale_inv = {1, 1}; }),
              StatusIs(kInvalidArgument,
                       HasSubstr("slot \"m/input\": scale_inv: got 1, want 1 "
                                 "/ scale")));
  EXPECT_THAT(refused([](PositionalArrays* a) { a->scale[1] = 0; }),
              StatusIs(kInvalidArgument, HasSubstr("scale: got 0")));
  EXPECT_THAT(refused([](PositionalArrays* a) { a->amax_history[0] = -2; }),
              StatusIs(kInvalidArgument, HasSubstr("got -2 in row 0")));
}

}  // namespace
}  // namespace scalekeeper
