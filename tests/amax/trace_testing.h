// The amaxes of a real training run (tests/data/traces).
#ifndef SCALEKEEPER_TESTS_AMAX_TRACE_TESTING_H_
#define SCALEKEEPER_TESTS_AMAX_TRACE_TESTING_H_

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "tests/testing/data_file.h"

namespace scalekeeper {

struct Trace {
  std::vector<std::string> slots;          // "layers.0.qkv/input"
  std::vector<std::vector<float>> amaxes;  // [step][slot]
};

inline Trace ReadTrace(const std::string& name) {
  Trace trace;
  const std::string text = ReadDataFile(name);
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> cells = absl::StrSplit(line, ',');
    if (trace.slots.empty()) {
      for (size_t i = 2; i < cells.size(); ++i) {
        trace.slots.emplace_back(cells[i]);
      }
      continue;
    }
    std::vector<float>& row = trace.amaxes.emplace_back();
    for (size_t i = 2; i < cells.size(); ++i) {
      row.emplace_back();
      EXPECT_TRUE(absl::SimpleAtof(cells[i], &row.back())) << cells[i];
    }
  }
  return trace;
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TESTS_AMAX_TRACE_TESTING_H_
