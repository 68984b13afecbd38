// Quantize and multiply real activations, weights and gradients, end to end.
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "gemm/matmul.h"
#include "gtest/gtest.h"
#include "numerics/bits.h"
#include "quantizer/quantizer.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/data_file.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/test_tensor.h"

namespace scalekeeper {
namespace {

constexpr int64_t kSize = 128;
constexpr Stream kStream;

TestTensor ReadTensor(const std::string& name) {
  const std::string bytes = ReadDataFile("tensors/" + name + ".128x128.bf16");
  EXPECT_EQ(bytes.size(), 2u * kSize * kSize);
  return TestTensor::Of(DType::kBF16, kSize, kSize, [&](int64_t r, int64_t c) {
    uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + 2 * (r * kSize + c), 2);
    return FloatFromBF16(bits);
  });
}

// 20 log10(|want| / |want - got|) in dB.
double Sqnr(const TestTensor& want, const TestTensor& got) {
  double signal = 0;
  double error = 0;
  for (int64_t r = 0; r < kSize; ++r) {
    for (int64_t c = 0; c < kSize; ++c) {
      const double w = want.at(r, c);
      signal += w * w;
      error += (w - got.at(r, c)) * (w - got.at(r, c));
    }
  }
  return 10 * std::log10(signal / error);
}

class QuantizedMatmulTest : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Presets, QuantizedMatmulTest,
                         ::testing::Values("delayed_hybrid", "tensorwise"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

TEST_P(QuantizedMatmulTest, FpropDgradAndWgradOfRealTensors) {
  Recipe recipe = ValueOrDie(Recipe::Load(GetParam()));
  auto state = ValueOrDie(RecipeState::Create(recipe, {}));
  const ModuleSlots slots = ValueOrDie(state->AddModule("layers.4.fc2"));
  ASSERT_THAT(state->Freeze(), IsOk());
  const Usages both = {true, true};
  auto input = ValueOrDie(MakeQuantizer(state.get(), slots.input, both));
  auto weight = ValueOrDie(MakeQuantizer(state.get(), slots.weight, both));
  auto grad = ValueOrDie(MakeQuantizer(state.get(), slots.grad, both));

  TestTensor x = ReadTensor("layers.4.fc2.input");
  TestTensor w = ReadTensor("layers.4.qkv.weight");
  TestTensor dy = ReadTensor("layers.4.fc2.grad");
  // Twice: under first_step: MEASURE, then with the updated scales.
  for (int step = 0; step < 2; ++step) {
    const auto x8 = ValueOrDie(input->Quantize(x.view(), kStream));
    const auto w8 = ValueOrDie(weight->Quantize(w.view(), kStream));
    const auto dy8 = ValueOrDie(grad->Quantize(dy.view(), kStream));
    const Statistics of_x = ValueOrDie(input->Measure(x.view(), kStream));
    const Statistics of_dy = ValueOrDie(grad->Measure(dy.view(), kStream));
    EXPECT_GT(of_x.sqnr_db(), 28.0);
    EXPECT_GT(of_dy.sqnr_db(), 22.0);
    // The amax itself may land one float32 above 448.
    EXPECT_LE(of_x.saturation, 1);
    EXPECT_LT(of_dy.underflow_fraction(), 0.02);

    struct {
      const char* name;
      const QuantizedTensor *a, *b;
      TestTensor *plain_a, *plain_b;
      bool transa, transb;
      double min_db;
    } const gemms[] = {
        {"fprop", &x8, &w8, &x, &w, false, true, 26.0},
        {"dgrad", &dy8, &w8, &dy, &w, false, false, 22.0},
        {"wgrad", &dy8, &x8, &dy, &x, true, false, 22.0},
    };
    for (const auto& gemm : gemms) {
      MatmulOptions options;
      options.transa = gemm.transa;
      options.transb = gemm.transb;
      TestTensor want(DType::kF32, kSize, kSize);
      TestTensor got(DType::kF32, kSize, kSize);
      ASSERT_THAT(Matmul(gemm.plain_a->view(), gemm.plain_b->view(),
                         want.view(), options, kStream),
                  IsOk());
      ASSERT_THAT(Matmul(*gemm.a, *gemm.b, got.view(), options, kStream),
                  IsOk());
      EXPECT_GT(Sqnr(want, got), gemm.min_db) << gemm.name;
    }
    ASSERT_THAT(state->EndStep(kStream), IsOk());
  }
}

}  // namespace
}  // namespace scalekeeper
