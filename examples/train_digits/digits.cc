#include "examples/train_digits/digits.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "examples/train_digits/random.h"

namespace scalekeeper {
namespace {

struct Row {
  std::vector<float> pixels;
  int label = 0;
};

absl::StatusOr<Row> ParseRow(absl::string_view line, size_t line_number) {
  const std::vector<absl::string_view> cells = absl::StrSplit(line, ',');
  if (cells.size() != kPixels + 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("line ", line_number, ": got ", cells.size(),
                     " columns, want ", kPixels + 1));
  }
  Row row;
  for (size_t i = 0; i < cells.size(); ++i) {
    const bool is_label = i + 1 == cells.size();
    const int limit = is_label ? kClasses - 1 : 16;
    int value = 0;
    if (!absl::SimpleAtoi(cells[i], &value) || value < 0 || value > limit) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", line_number, ", column ", i + 1, ": got '",
                       cells[i], "', want 0..", limit));
    }
    if (is_label) {
      row.label = value;
    } else {
      row.pixels.push_back(static_cast<float>(value) / 16.0f);
    }
  }
  return row;
}

void Append(const Row& row, DigitSet* set) {
  set->pixels.insert(set->pixels.end(), row.pixels.begin(), row.pixels.end());
  set->labels.push_back(row.label);
}

}  // namespace

absl::StatusOr<Digits> ParseDigits(absl::string_view csv, uint64_t seed) {
  std::vector<Row> rows;
  size_t line_number = 0;
  for (absl::string_view line : absl::StrSplit(csv, '\n')) {
    ++line_number;
    line = absl::StripSuffix(line, "\r");
    if (line.empty()) continue;
    absl::StatusOr<Row> row = ParseRow(line, line_number);
    if (!row.ok()) return row.status();
    rows.push_back(*std::move(row));
  }
  if (rows.size() < 5) {
    return absl::InvalidArgumentError(
        absl::StrCat("got ", rows.size(), " rows of digits, want at least 5"));
  }
  Random random(seed);
  random.Shuffle(&rows);
  Digits digits;
  const size_t train_size = rows.size() * 4 / 5;
  for (size_t i = 0; i < rows.size(); ++i) {
    Append(rows[i], i < train_size ? &digits.train : &digits.test);
  }
  return digits;
}

}  // namespace scalekeeper
