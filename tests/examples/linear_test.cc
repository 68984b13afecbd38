// The example's linear layer: which quantized copies it makes, and that a
// validation in the middle of training leaves no trace.
#include "examples/train_digits/linear.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "examples/custom_quantizer/log8.h"
#include "examples/train_digits/digits.h"
#include "examples/train_digits/mlp.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "recipe/recipe.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/counting_allocator.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

constexpr int64_t kIn = 24, kOut = 8, kTokens = 16;

// One layer and its memory.
struct Layer {
  explicit Layer(const std::string& recipe, bool needs_dx = true)
      : state(MakeState(recipe)),
        parameters(static_cast<size_t>(Linear::ParameterCount(kIn, kOut)),
                   0.25f),
        gradients(parameters.size()),
        x(static_cast<size_t>(kTokens * kIn), 0.5f),
        y(static_cast<size_t>(kTokens * kOut), 0.125f),
        dx(x.size()) {
    const ModuleSlots slots = ValueOrDie(state->AddModule("fc"));
    Linear::Options options;
    options.in = kIn;
    options.out = kOut;
    options.needs_dx = needs_dx;
    options.allocator = &allocator;
    linear = std::make_unique<Linear>(state.get(), "fc", slots, options,
                                      parameters.data(), gradients.data());
    EXPECT_THAT(state->Freeze(), IsOk());
    EXPECT_THAT(linear->MakeQuantizers(), IsOk());
    needs_dx_ = needs_dx;
  }

  static TensorView View(std::vector<float>& values, int64_t cols) {
    return TensorView::Contiguous(values.data(), DType::kF32, kTokens, cols);
  }
  void Step() {
    EXPECT_THAT(
        linear->Forward(View(x, kIn), Activation::kNone, true, View(y, kOut)),
        IsOk());
    const TensorView out = View(dx, kIn);
    EXPECT_THAT(linear->Backward(View(y, kOut), y, needs_dx_ ? &out : nullptr),
                IsOk());
    EXPECT_THAT(state->EndStep(Stream{}), IsOk());
  }

  CountingAllocator allocator;
  std::unique_ptr<RecipeState> state;
  std::vector<float> parameters, gradients, x, y, dx;
  std::unique_ptr<Linear> linear;
  bool needs_dx_ = true;
};

std::string Recipe8(const std::string& matmul = "") {
  return "defaults { all { format: E4M3 current {} } } " + matmul;
}

// Bytes of quantized tensors that the layer holds after a step.
int64_t HeldBytes(const std::string& matmul, bool needs_dx = true) {
  Layer layer(Recipe8(matmul), needs_dx);
  layer.Step();
  return static_cast<int64_t>(layer.allocator.held);
}

TEST(LinearTest, MakesNoCopyForAGemmInHighPrecision) {
  const int64_t input = kTokens * kIn, weight = kIn * kOut,
                grad = kTokens * kOut;
  const int64_t all = HeldBytes("");
  EXPECT_GE(all, 2 * (input + weight + grad));
  // A copy less is its codes and its scale less.
  const auto less = [&](const std::string& matmul, bool needs_dx = true) {
    return all - HeldBytes(matmul, needs_dx);
  };
  const auto near = [](int64_t bytes) {
    return ::testing::AllOf(::testing::Ge(bytes), ::testing::Le(bytes + 200));
  };
  EXPECT_THAT(less("matmul { wgrad { high_precision: true } }"),
              near(input + grad));
  EXPECT_THAT(less("matmul { dgrad { high_precision: true } }"),
              near(weight + grad));
  EXPECT_THAT(less("", /*needs_dx=*/false), near(weight + grad));
  EXPECT_THAT(less("matmul { fprop { high_precision: true } }"),
              near(input + weight));
}

TEST(LinearTest, MakesNothingWhereEveryGemmIsInHighPrecision) {
  Layer layer(
      Recipe8("matmul { fprop { high_precision: true } dgrad { "
              "high_precision: true } wgrad { high_precision: true } }"));
  layer.Step();
  EXPECT_EQ(layer.allocator.allocations, 0);
}

TEST(LinearTest, HighPrecisionGemmsGiveTheExactResult) {
  Layer layer(Recipe8("matmul { wgrad { high_precision: true } }"));
  layer.Step();
  // dw = dy^T x over kTokens tokens.
  EXPECT_EQ(layer.gradients[0], layer.y[0] * 0.5f * kTokens);
}

TEST(LinearTest, StepsMakeNoTensorsOnceWarm) {
  Layer layer(Recipe8());
  layer.Step();
  const int64_t before = layer.allocator.allocations;
  for (int i = 0; i < 3; ++i) layer.Step();
  EXPECT_EQ(layer.allocator.allocations, before);
}

// --------------------------------------------------------------- validation

DigitSet First(const DigitSet& set, int64_t rows) {
  DigitSet part;
  part.pixels.assign(set.pixels.begin(), set.pixels.begin() + rows * kPixels);
  part.labels.assign(set.labels.begin(), set.labels.begin() + rows);
  return part;
}

// What a validation must leave as it is: amaxes, scales and windows.
struct ScalingState {
  std::vector<uint32_t> words;
  friend bool operator==(const ScalingState& a, const ScalingState& b) {
    return a.words == b.words;
  }
};

ScalingState StateOf(const RecipeState& state) {
  ScalingState all;
  for (int32_t i = 0; i < static_cast<int32_t>(state.slot_count()); ++i) {
    const SlotView view = state.View(SlotId{i});
    if (view.amax != nullptr) all.words.push_back(*view.amax);
    if (view.scale == nullptr) continue;
    all.words.push_back(FloatBits(*view.scale));
    all.words.push_back(FloatBits(*view.scale_inv));
    for (const uint32_t bits : ValueOrDie(state.Window(SlotId{i}, Stream{}))) {
      all.words.push_back(bits);
    }
  }
  return all;
}

// A small loop over the model; in steps 2 and 4 it validates, or does not.
struct Trace {
  std::vector<float> gradients;  // of all steps, one behind the other
  ScalingState state;            // at the end
  int64_t kept_allocations = 0;  // by the training of steps 2 to 5
};

Trace Train(const std::string& recipe, bool validates) {
  const auto digits =
      ValueOrDie(ParseDigits(ValueOrDie(ReadFile("examples/data/digits.csv")),
                             /*seed=*/0));
  CountingAllocator allocator;
  auto state = MakeState(recipe);
  auto mlp = ValueOrDie(Mlp::Create(state.get(), /*seed=*/1, &allocator));
  EXPECT_THAT(state->Freeze(), IsOk());
  EXPECT_THAT(mlp->Prepare(), IsOk());
  const DigitSet batch = First(digits.train, 32);
  Trace trace;
  for (int step = 0; step < 6; ++step) {
    EXPECT_THAT(state->SetStep(step), IsOk());
    const int64_t before = allocator.allocations;
    ValueOrDie(mlp->ForwardBackward(batch));
    if (step >= 2) trace.kept_allocations += allocator.allocations - before;
    for (size_t i = 0; i < mlp->parameters().size(); ++i) {
      mlp->parameters()[i] -= 0.1f * mlp->gradients()[i];
    }
    trace.gradients.insert(trace.gradients.end(), mlp->gradients().begin(),
                           mlp->gradients().end());
    if (validates && (step == 2 || step == 4)) {  // within the step
      const size_t held = allocator.held;
      const ScalingState scaling = StateOf(*state);
      for (int i = 0; i < 3; ++i) {
        ValueOrDie(mlp->CountCorrect(digits.test));
      }
      EXPECT_EQ(allocator.held, held) << "validation keeps nothing, and frees "
                                         "nothing of what training keeps";
      EXPECT_TRUE(StateOf(*state) == scaling) << "nothing is observed";
    }
    EXPECT_THAT(state->EndStep(Stream{}), IsOk());
  }
  trace.state = StateOf(*state);
  return trace;
}

struct ValidationCase {
  const char* name;
  const char* recipe;  // text, or "": the preset of the name
  bool phased = false;
};

class ValidationTest : public ::testing::TestWithParam<ValidationCase> {
 protected:
  static void SetUpTestSuite() { EXPECT_THAT(RegisterLog8(), IsOk()); }
};

TEST_P(ValidationTest, LeavesTrainingBitForBitAsItWas) {
  const std::string recipe =
      *GetParam().recipe == '\0'
          ? ValueOrDie(Recipe::PresetText(GetParam().name))
          : GetParam().recipe;
  const Trace plain = Train(recipe, /*validates=*/false);
  const Trace validated = Train(recipe, /*validates=*/true);
  EXPECT_EQ(validated.gradients, plain.gradients);
  EXPECT_TRUE(validated.state == plain.state);
  EXPECT_EQ(validated.kept_allocations, plain.kept_allocations);
  if (GetParam().phased) return;  // a new phase has new tensors
  EXPECT_EQ(validated.kept_allocations, 0) << "no buffer is made again";
}

INSTANTIATE_TEST_SUITE_P(
    Recipes, ValidationTest,
    ::testing::Values(
        ValidationCase{"delayed_e4m3", ""}, ValidationCase{"tensorwise", ""},
        ValidationCase{"rowwise", ""}, ValidationCase{"blockwise", ""},
        ValidationCase{"mxfp8", ""}, ValidationCase{"nvfp4", ""},
        ValidationCase{"rowwise_wgrad_bf16", ""},
        ValidationCase{"custom",
                       "defaults { all { custom { factory: \"examples.log8\" "
                       "} } }"},
        ValidationCase{"phased",
                       "defaults { all { format: E4M3 delayed {} } } "
                       "phase { from_step: 0 all { high_precision {} } } "
                       "phase { from_step: 3 }",
                       true},
        ValidationCase{"phased_nvfp4",
                       "defaults { all { format: E4M3 delayed {} } } "
                       "phase { from_step: 0 } "
                       "phase { from_step: 3 all { nvfp4 {} } }",
                       true}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(InferenceModeTest, WeightsCarryRowWiseDataOnlyForTheProcess) {
  RecipeStateOptions options;
  options.inference = true;
  OneModule inferring = FrozenModule(DelayedRecipe(""), options);
  OneModule training = FrozenModule(DelayedRecipe(""));
  constexpr Usages kBoth = {/*row_wise=*/true, /*column_wise=*/true};
  const auto make = [&](OneModule& module) {
    return ValueOrDie(
        MakeQuantizer(module.state.get(), module.slots.weight, kBoth));
  };
  auto inference = make(inferring);
  auto both = make(training);
  EXPECT_TRUE(inference->inference());
  std::vector<float> w(256 * 256, 3.0f);
  const auto view = ConstTensorView(BasicTensorView<const void*>::Contiguous(
      w.data(), DType::kF32, 256, 256));
  const QuantizedTensor small = ValueOrDie(inference->Quantize(view, Stream{}));
  const QuantizedTensor large = ValueOrDie(both->Quantize(view, Stream{}));
  EXPECT_FALSE(small.column_wise.has_value());
  EXPECT_EQ(large.bytes() - small.bytes(), 256u * 256u + sizeof(float));
  EXPECT_EQ(*inferring.state->View(inferring.slots.weight).amax, 0u)
      << "nothing is observed";
  EXPECT_NE(*training.state->View(training.slots.weight).amax, 0u);
}

}  // namespace
}  // namespace scalekeeper
