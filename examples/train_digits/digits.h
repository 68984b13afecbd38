// The hand-written digits, split into a training and a test set.
#ifndef SCALEKEEPER_EXAMPLES_TRAIN_DIGITS_DIGITS_H_
#define SCALEKEEPER_EXAMPLES_TRAIN_DIGITS_DIGITS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace scalekeeper {

inline constexpr int64_t kPixels = 64;
inline constexpr int64_t kClasses = 10;

struct DigitSet {
  std::vector<float> pixels;  // size() x kPixels, row-major, 0..1
  std::vector<int> labels;    // 0..9

  int64_t size() const { return static_cast<int64_t>(labels.size()); }
};

struct Digits {
  DigitSet train;  // 1437 of the 1797
  DigitSet test;   // the other 360, one fifth
};

// `csv`: per line 64 pixel values 0..16, then the digit. A seeded shuffle
// decides which rows are held out. InvalidArgument with the line and column of
// the first fault.
absl::StatusOr<Digits> ParseDigits(absl::string_view csv, uint64_t seed);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_EXAMPLES_TRAIN_DIGITS_DIGITS_H_
