// What a weight holds with both copies and, under an InferenceGuard, with the
// row-wise one alone: bytes that an allocator has handed out, for every preset.
// docs/inference.md shows the table that this prints.
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>

#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "quantizer/inference_guard.h"
#include "quantizer/quantizer.h"
#include "recipe/recipe.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/counting_allocator.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/test_tensor.h"

namespace scalekeeper {
namespace {

constexpr int64_t kSide = 1024;
constexpr Usages kBoth = {/*row_wise=*/true, /*column_wise=*/true};

struct Memory {
  const char* preset;
  size_t both, row_wise;
};

// Codes, scales, and the words with which they are made.
constexpr Memory kTable[] = {
    {"high_precision", 4194304, 2097152}, {"delayed_hybrid", 2097180, 1048600},
    {"tensorwise", 2097180, 1048600},     {"rowwise", 2113556, 1060884},
    {"blockwise", 2097684, 1048852},      {"mxfp8", 2162708, 1081364},
    {"nvfp4", 1056804, 528416},
};

TEST(InferenceMemoryTest, WeightsUnderTheGuardHoldTheRowWiseCopyAlone) {
  std::cout << absl::StrFormat("%-16s %10s %10s\n", "preset", "both",
                               "row-wise");
  for (const Memory& want : kTable) {
    auto state = ValueOrDie(
        RecipeState::Create(ValueOrDie(Recipe::Load(want.preset)), {}));
    const ModuleSlots slots = ValueOrDie(state->AddModule("layers.3.fc1"));
    ASSERT_THAT(state->Freeze(), IsOk());
    CountingAllocator allocator;
    auto quantizer =
        ValueOrDie(MakeQuantizer(state.get(), slots.weight, kBoth, &allocator));
    TestTensor w =
        TestTensor::Of(DType::kBF16, kSide, kSide, [](int64_t r, int64_t c) {
          return static_cast<float>((r * 31 + c * 7) % 101 - 50);
        });
    size_t held[2];
    for (const bool inference : {false, true}) {
      std::unique_ptr<InferenceGuard> guard;
      if (inference) guard = std::make_unique<InferenceGuard>();
      ASSERT_EQ(allocator.held, 0u);
      const QuantizedTensor q =
          ValueOrDie(quantizer->Quantize(w.view(), Stream{}));
      held[inference] = allocator.held;
      EXPECT_EQ(q.bytes(), held[inference]);
      EXPECT_EQ(q.column_wise.has_value(), !inference);
    }
    std::cout << absl::StrFormat("%-16s %10d %10d\n", want.preset, held[0],
                                 held[1]);
    EXPECT_EQ(held[0], want.both) << want.preset;
    EXPECT_EQ(held[1], want.row_wise) << want.preset;
  }
}

}  // namespace
}  // namespace scalekeeper
