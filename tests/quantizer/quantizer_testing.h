// What the tests of quantizers share: recipes, and one quantizer of one module.
#ifndef SCALEKEEPER_TESTS_QUANTIZER_QUANTIZER_TESTING_H_
#define SCALEKEEPER_TESTS_QUANTIZER_QUANTIZER_TESTING_H_

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "quantizer/quantizer.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/test_tensor.h"

namespace scalekeeper {

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
inline constexpr Usages kBoth = {true, true};
inline constexpr Stream kStream;

inline std::string UnitRecipe(
    const std::string& options = "amax_history_len: 4") {
  return DelayedRecipe(options + " first_step: UNIT");
}
inline std::string CurrentRecipe(const std::string& options = "") {
  return "defaults { all { format: E4M3 current { " + options + " } } }";
}
inline std::string HighPrecisionRecipe(const std::string& dtype) {
  return "defaults { all { high_precision { dtype: " + dtype + " } } }";
}

inline RecipeStateOptions OptionsOf(Device device) {
  RecipeStateOptions options;
  options.device = device;
  options.check_chip = false;  // nothing is multiplied
  return options;
}

// A state of one module and the quantizer of its input slot.
struct Rig {
  explicit Rig(const std::string& recipe, Usages usages = kBoth,
               Device device = Device::Host())
      : module(FrozenModule(recipe, OptionsOf(device))),
        quantizer(ValueOrDie(
            MakeQuantizer(module.state.get(), module.slots.input, usages))) {}

  QuantizedTensor Quantize(TestTensor& x) {
    return ValueOrDie(quantizer->Quantize(x.view(), kStream));
  }
  // Quantizes, so that amax is observed, and ends the step.
  void Step(float amax) {
    TestTensor x = TestTensor::Row(DType::kF32, {amax});
    Quantize(x);
    EXPECT_THAT(module.state->EndStep(kStream), IsOk());
  }
  uint32_t ObservedAmax() {
    return *module.state->View(module.slots.input).amax;
  }

  OneModule module;
  std::unique_ptr<Quantizer> quantizer;
};

inline std::vector<uint8_t> Codes(const QuantizedData& data) {
  const uint8_t* codes = data.codes.as<uint8_t>();
  return {codes, codes + data.codes.size()};
}
inline float ScaleInv(const QuantizedTensor& tensor) {
  return *tensor.row_wise->scale_inv.as<float>();
}
inline std::vector<float> Dequantized(const Quantizer& quantizer,
                                      const QuantizedTensor& q) {
  TestTensor out(DType::kF32, q.rows, q.cols);
  EXPECT_THAT(quantizer.Dequantize(q, out.view(), kStream), IsOk());
  std::vector<float> values;
  for (int64_t r = 0; r < q.rows; ++r) {
    for (int64_t c = 0; c < q.cols; ++c) values.push_back(out.at(r, c));
  }
  return values;
}

inline float Wave(int64_t r, int64_t c) {
  return std::sin(static_cast<float>(37 * r + 11 * c)) * 3;
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TESTS_QUANTIZER_QUANTIZER_TESTING_H_
