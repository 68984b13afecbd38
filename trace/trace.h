// A trace: the amaxes that one rank recorded, step by step. Plain values.
//
// A column is a slot, "layers.0.fc1/input". A cell is that rank's amax of the
// step before any reduction, as float32 bits (numerics/amax.h), or
// kNotObserved.
#ifndef SCALEKEEPER_TRACE_TRACE_H_
#define SCALEKEEPER_TRACE_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "recipe/policy.h"

namespace scalekeeper {

struct TraceColumn {
  std::string name;    // "layers.0.qkv/input"
  std::string module;  // "layers.0.qkv"
  Role role = Role::kInput;
};

// Whether the column is a linear layer's input, weight or grad, and not a slot
// beside them (an attention's "layers.0.attn/s").
bool IsLayerColumn(const TraceColumn& column);
// The column of a linear layer's tensor.
TraceColumn LayerColumn(std::string module, Role role);

// What stands in a cell of a tensor that was not observed; no amax has it.
inline constexpr uint32_t kNotObserved = 0xFFFFFFFFu;

struct TraceHeader {
  std::vector<TraceColumn> columns;
  bool has_loss = false;
  // Of the run, where known: -1 and empty otherwise.
  int64_t rank = -1;
  int64_t ranks = -1;
  std::string recipe_fingerprint;
};

// Magnitudes of a tensor, counted per power of two.
struct Log2Histogram {
  int first_exponent = 0;
  // counts[i]: 2^(first_exponent + i) <= |x| < 2^(first_exponent + i + 1).
  // counts[0] includes everything smaller and the zeros.
  std::vector<uint64_t> counts;
};

struct ColumnHistogram {
  size_t column = 0;
  Log2Histogram histogram;
};

struct TraceStep {
  int64_t step = 0;                 // >= 0
  std::optional<double> loss;       // where known; may be NaN
  std::vector<uint32_t> amax_bits;  // per column
  std::vector<ColumnHistogram> histograms;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TRACE_TRACE_H_
