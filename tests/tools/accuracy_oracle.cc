#include "tests/tools/accuracy_oracle.h"

#include <algorithm>
#include <bitset>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>

#include "tests/quantizer/block_oracle.h"
#include "tests/testing/oracle.h"

namespace scalekeeper::oracle {
namespace {

constexpr int64_t kSize = 128;

struct Rules {
  bool exact = false;  // the tensor stays in bfloat16
  BlockRules row_wise, column_wise;
  bool has_column_wise = true;
};

BlockRules Float32Blocks(Kind code, int64_t rows, int64_t cols, bool power_2) {
  BlockRules rules;
  rules.scale = ScaleKind::kFloat32;
  rules.code = code;
  rules.block_rows = rows;
  rules.block_cols = cols;
  rules.power_2 = power_2;
  return rules;
}

Rules Both(const BlockRules& rules) { return {false, rules, rules, true}; }

Rules Nvfp4Rules(const RealTensor& tensor) {
  BlockRules rules;
  rules.scale = ScaleKind::kE4M3;
  rules.code = Kind::kE2M1;
  rules.block_rows = tensor.role == "weight" ? 16 : 1;
  rules.block_cols = 16;
  rules.stochastic = tensor.role == "grad";
  rules.name = tensor.module + "/" + tensor.role;
  rules.seed = 0;
  rules.step = 599;
  Rules both = Both(rules);
  if (tensor.role != "weight") {
    both.column_wise.hadamard = true;
    both.column_wise.round = [](float x) {
      return static_cast<float>(Decode(Kind::kBF16, Encode(Kind::kBF16, x)));
    };
  }
  return both;
}

Rules RulesOf(const std::string& preset, const RealTensor& tensor) {
  const bool grad = tensor.role == "grad";
  const Kind hybrid = grad ? Kind::kE5M2 : Kind::kE4M3;
  Rules exact;
  exact.exact = true;
  if (preset == "high_precision") return exact;
  if (preset == "delayed_hybrid_bf16_ends" &&
      (tensor.layer == 0 || tensor.layer == 7)) {
    return exact;
  }
  // One block. A delayed scale that was never set is that of the tensor itself.
  if (preset == "delayed_e4m3") {
    return Both(Float32Blocks(Kind::kE4M3, kSize, kSize, false));
  }
  if (preset == "tensorwise" || preset == "delayed_hybrid" ||
      preset == "delayed_hybrid_bf16_ends" ||
      preset == "delayed_hybrid_bf16_warmup") {  // bfloat16 before step 500
    return Both(Float32Blocks(hybrid, kSize, kSize, false));
  }
  if (preset == "rowwise" || preset == "rowwise_wgrad_bf16") {
    Rules rules = Both(Float32Blocks(Kind::kE4M3, 1, 0, true));
    // Column-wise, wgrad reads input and grad, dgrad the weight.
    rules.has_column_wise = preset == "rowwise" || tensor.role == "weight";
    return rules;
  }
  if (preset == "blockwise") {
    BlockRules rules = Float32Blocks(
        Kind::kE4M3, tensor.role == "weight" ? 128 : 1, 128, true);
    rules.overflow = FloatOfBits(0x7F7F0000);
    return Both(rules);
  }
  if (preset == "mxfp8") {
    BlockRules rules;
    rules.scale = ScaleKind::kE8M0;
    rules.code = Kind::kE4M3;
    rules.block_rows = 1;
    rules.block_cols = 32;
    return Both(rules);
  }
  // nvfp4_bf16_tail: of 8 layers, none of these is among the last.
  return Nvfp4Rules(tensor);
}

// Sixteen by sixteen: the inverse of an orthogonal matrix is its transpose.
std::vector<double> InverseTransform(const std::vector<float>& y) {
  const std::string signs = "+++-+------+-+--";
  std::vector<double> x(y.size());
  for (size_t at = 0; at < y.size(); at += 16) {
    for (size_t i = 0; i < 16; ++i) {
      double sum = 0;
      for (size_t j = 0; j < 16; ++j) {
        const bool odd = std::bitset<4>(i & j).count() % 2 == 1;
        sum += odd ? -y[at + j] : y[at + j];
      }
      x[at + i] = (signs[i] == '-' ? -sum : sum) / 4;
    }
  }
  return x;
}

struct Read {
  Loss loss;
  std::vector<double> back;  // in the direction of the codes
};

Read ReadBack(const Matrix& x, const BlockRules& rules) {
  const BlockResult result = BlockOracle(x, rules).Run();
  Read read;
  read.back.assign(result.back.begin(), result.back.end());
  if (rules.hadamard) read.back = InverseTransform(result.back);
  Loss& loss = read.loss;
  loss.count = static_cast<int64_t>(x.v.size());
  loss.nonzero = result.nonzero;
  loss.underflow = result.underflow;
  loss.saturation = result.saturation;
  loss.hadamard = rules.hadamard;
  double largest = 0;
  for (size_t i = 0; i < x.v.size(); ++i) {
    const double value = x.v[i];
    const double error = std::fabs(value - read.back[i]);
    loss.signal += value * value;
    loss.error += error * error;
    largest = std::fmax(largest, std::fabs(value));
    loss.max_error = std::fmax(loss.max_error, error);
    if (value != 0 && read.back[i] != 0) {
      loss.max_relative_error =
          std::fmax(loss.max_relative_error, error / std::fabs(value));
    }
  }
  loss.max_error /= largest;
  return read;
}

Loss NothingLost(const Matrix& x) {
  Loss loss;
  loss.count = static_cast<int64_t>(x.v.size());
  for (const float value : x.v) {
    loss.signal += static_cast<double>(value) * static_cast<double>(value);
    if (value != 0) ++loss.nonzero;
  }
  return loss;
}

bool SameValues(const std::vector<double>& row_wise,
                const std::vector<double>& column_wise) {
  for (size_t r = 0; r < kSize; ++r) {
    for (size_t c = 0; c < kSize; ++c) {
      if (row_wise[r * kSize + c] != column_wise[c * kSize + r]) return false;
    }
  }
  return true;
}

std::string Printed(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

double Percent(int64_t part, int64_t whole) {
  return 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

std::string Decibels(const Loss& loss) {
  if (loss.error == 0) return "exact";
  return Printed(
      "%.2f", 20 * std::log10(std::sqrt(loss.signal) / std::sqrt(loss.error)));
}

}  // namespace

const std::vector<RealTensor>& RealTensors() {
  static const std::vector<RealTensor> tensors = {
      {"layers.0.qkv", 0, "input"},
      {"layers.4.fc2", 4, "grad"},
      {"layers.4.fc2", 4, "input"},
      {"layers.4.qkv", 4, "weight"},
  };
  return tensors;
}

const std::vector<std::string>& Presets() {
  static const std::vector<std::string> presets = {
      "blockwise",       "delayed_e4m3",
      "delayed_hybrid",  "delayed_hybrid_bf16_ends",
      "mxfp8",           "delayed_hybrid_bf16_warmup",
      "high_precision",  "nvfp4",
      "nvfp4_bf16_tail", "rowwise",
      "tensorwise",      "rowwise_wgrad_bf16",
  };
  return presets;
}

Losses LossesOf(const std::string& preset, const RealTensor& tensor,
                const std::string& bytes) {
  Matrix x{kSize, kSize, {}};
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
    const auto low = static_cast<uint8_t>(bytes[i]);
    const auto high = static_cast<uint8_t>(bytes[i + 1]);
    x.v.push_back(static_cast<float>(
        Decode(Kind::kBF16, static_cast<uint32_t>(high << 8 | low))));
  }
  const Rules rules = RulesOf(preset, tensor);
  Losses losses;
  if (rules.exact) {
    losses.row_wise = losses.column_wise = NothingLost(x);
    losses.same = true;
    return losses;
  }
  const Read row_wise = ReadBack(x, rules.row_wise);
  losses.row_wise = row_wise.loss;
  if (!rules.has_column_wise) return losses;
  const Read column_wise = ReadBack(x.Transposed(), rules.column_wise);
  losses.column_wise = column_wise.loss;
  losses.same = SameValues(row_wise.back, column_wise.back);
  return losses;
}

std::vector<std::string> CellsOf(const Losses& losses) {
  const std::vector<std::function<std::string(const Loss&)>> figures = {
      Decibels,
      [](const Loss& l) { return Printed("%.3g", l.max_error); },
      [](const Loss& l) { return Printed("%.3g", l.max_relative_error); },
      [](const Loss& l) {
        return Printed("%.3f", Percent(l.underflow, l.nonzero));
      },
      [](const Loss& l) {
        return Printed("%.3f", Percent(l.saturation, l.count));
      },
  };
  std::vector<std::string> cells;
  for (const auto& figure : figures) {
    cells.push_back(figure(*losses.row_wise));
    if (losses.same) continue;
    cells.back() +=
        " / " + (losses.column_wise ? figure(*losses.column_wise) : "-");
  }
  return cells;
}

}  // namespace scalekeeper::oracle
