// What each preset costs the training example in accuracy, at most; the bar of
// the README.
#ifndef SCALEKEEPER_TESTS_EXAMPLES_PRESETS_TESTING_H_
#define SCALEKEEPER_TESTS_EXAMPLES_PRESETS_TESTING_H_

#include <cstddef>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace scalekeeper {

struct Preset {
  const char* name;
  double lost;            // accuracy below float32's, at most
  size_t shared_scales;   // at least: where there is one scale, the weights'
  size_t quantizers = 9;  // that quantize in the phase that the run begins in
};

inline std::vector<Preset> Presets() {
  return {{"delayed_hybrid", 0.01, 3},
          {"delayed_e4m3", 0.01, 3},
          {"tensorwise", 0.01, 3},
          {"rowwise", 0.015, 0},
          {"blockwise", 0.015, 0},
          {"mxfp8", 0.015, 0},
          {"nvfp4", 0.03, 0},
          {"high_precision", 0.01, 0, 0},
          {"rowwise_wgrad_bf16", 0.015, 0},
          {"nvfp4_bf16_tail", 0.03, 0},
          {"delayed_hybrid_bf16_ends", 0.015, 0},
          {"delayed_hybrid_bf16_warmup", 0.015, 0, 0}};
}

inline std::string PresetName(const ::testing::TestParamInfo<Preset>& info) {
  return info.param.name;
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TESTS_EXAMPLES_PRESETS_TESTING_H_
