// A second opinion on every number of docs/accuracy.md, for tests only: presets
// and figures written down again from docs/numerics.md, over the block oracle.
// It needs nothing of the library, neither recipes nor quantizers.
#ifndef SCALEKEEPER_TESTS_TOOLS_ACCURACY_ORACLE_H_
#define SCALEKEEPER_TESTS_TOOLS_ACCURACY_ORACLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace scalekeeper::oracle {

// A 128 x 128 tensor of tests/data/tensors, of step 599 of a model of 8 layers.
struct RealTensor {
  std::string module;
  int layer;
  std::string role;

  // As the command prints it, and its file.
  std::string title() const { return module + " " + role + " 128x128"; }
  std::string file() const { return module + "." + role + ".128x128.bf16"; }
};

const std::vector<RealTensor>& RealTensors();
const std::vector<std::string>& Presets();

struct Loss {
  double signal = 0, error = 0;  // sums of squares
  double max_error = 0, max_relative_error = 0;
  int64_t count = 0, nonzero = 0, underflow = 0, saturation = 0;
  // x^ was made by an inverse transform: in double here, in float32 there.
  bool hadamard = false;
};

struct Losses {
  std::optional<Loss> row_wise, column_wise;
  bool same = false;  // both read back the same values
};

// `bytes`: 128 x 128 bfloat16 values.
Losses LossesOf(const std::string& preset, const RealTensor& tensor,
                const std::string& bytes);

// The five cells of a tensor under a preset, in the order of the document.
std::vector<std::string> CellsOf(const Losses& losses);

}  // namespace scalekeeper::oracle

#endif  // SCALEKEEPER_TESTS_TOOLS_ACCURACY_ORACLE_H_
