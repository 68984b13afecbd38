// A training stack that uses Scalekeeper as a Bazel dependency: one quantized
// GEMM and one scale update under a preset recipe.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "amax/recipe_state.h"
#include "gemm/matmul.h"
#include "quantizer/quantizer.h"
#include "recipe/recipe.h"

#ifndef MY_TRAINING_STACK_RE2
#error "Scalekeeper was not built with this workspace's own RE2"
#endif

namespace sk = scalekeeper;

namespace {

// Fails the program with the Status's text.
template <typename T>
T OrDie(absl::StatusOr<T> value) {
  if (!value.ok()) {
    std::fprintf(stderr, "%s\n", value.status().ToString().c_str());
    std::exit(1);
  }
  return *std::move(value);
}

void OrDie(const absl::Status& status) {
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    std::exit(1);
  }
}

}  // namespace

int main() {
  const sk::Stream stream;
  const sk::Recipe recipe = OrDie(sk::Recipe::Load("delayed_hybrid"));
  const auto state = OrDie(sk::RecipeState::Create(recipe, {}));
  const sk::ModuleSlots fc1 = OrDie(state->AddModule("layers.0.fc1"));
  OrDie(state->Freeze());
  const auto quantize_x = OrDie(sk::MakeQuantizer(state.get(), fc1.input, {}));
  const auto quantize_w = OrDie(sk::MakeQuantizer(state.get(), fc1.weight, {}));

  std::vector<float> x(32 * 64, 0.5f), w(16 * 64, -3.0f), y(32 * 16);
  using View = sk::ConstTensorView;
  const auto x8 = OrDie(quantize_x->Quantize(
      View::Contiguous(x.data(), sk::DType::kF32, 32, 64), stream));
  const auto w8 = OrDie(quantize_w->Quantize(
      View::Contiguous(w.data(), sk::DType::kF32, 16, 64), stream));
  sk::MatmulOptions options;
  options.transb = true;
  OrDie(sk::Matmul(
      x8, w8, sk::TensorView::Contiguous(y.data(), sk::DType::kF32, 32, 16),
      options, stream));
  OrDie(state->EndStep(stream));
  std::printf("y[0] = %g, scale of %s = %.9g\n", static_cast<double>(y[0]),
              state->name(fc1.weight).c_str(),
              static_cast<double>(OrDie(state->Scale(fc1.weight, stream))));
  return 0;
}
