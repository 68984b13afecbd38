// Seeded random numbers that are the same with every standard library: only
// std::mt19937_64's output is specified, the distributions are not.
#ifndef SCALEKEEPER_EXAMPLES_TRAIN_DIGITS_RANDOM_H_
#define SCALEKEEPER_EXAMPLES_TRAIN_DIGITS_RANDOM_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace scalekeeper {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}

  // In [-limit, limit).
  float Uniform(float limit) {
    const double unit = static_cast<double>(engine_() >> 11) * 0x1p-53;
    return static_cast<float>((2.0 * unit - 1.0) * static_cast<double>(limit));
  }

  // Fisher-Yates; the bias of the modulo is below 2^-50 here.
  template <typename T>
  void Shuffle(std::vector<T>* values) {
    for (size_t i = values->size(); i > 1; --i) {
      std::swap((*values)[i - 1], (*values)[engine_() % i]);
    }
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_EXAMPLES_TRAIN_DIGITS_RANDOM_H_
