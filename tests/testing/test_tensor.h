// A small tensor for tests: any dtype, any memory layout, elements by function.
#ifndef SCALEKEEPER_TESTS_TESTING_TEST_TENSOR_H_
#define SCALEKEEPER_TESTS_TESTING_TEST_TENSOR_H_

#include <cstdint>
#include <cstring>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "base/tensor_view.h"
#include "numerics/convert.h"

namespace scalekeeper {

enum class Layout { kContiguous, kTransposed, kPadded, kSliced };
inline constexpr Layout kLayouts[] = {Layout::kContiguous, Layout::kTransposed,
                                      Layout::kPadded, Layout::kSliced};
inline constexpr DType kHighPrecisionDTypes[] = {DType::kF32, DType::kBF16,
                                                 DType::kF16};

class TestTensor {
 public:
  // Gaps are filled with 0xFF bytes: NaNs, which any stray read would show.
  TestTensor(DType dtype, int64_t rows, int64_t cols,
             Layout layout = Layout::kContiguous)
      : rows_(rows), cols_(cols), dtype_(dtype) {
    switch (layout) {
      case Layout::kContiguous:
        row_stride_ = cols;
        break;
      case Layout::kTransposed:
        row_stride_ = 1;
        col_stride_ = rows;
        break;
      case Layout::kPadded:
        row_stride_ = cols + 3;
        break;
      case Layout::kSliced:
        row_stride_ = 2 * (3 * cols + 1);
        col_stride_ = 3;
        break;
    }
    const int64_t elements =
        rows * cols == 0
            ? 0
            : (rows - 1) * row_stride_ + (cols - 1) * col_stride_ + 1;
    bytes_.assign(static_cast<size_t>(elements) * SizeOf(dtype), 0xFF);
  }

  // Element (r, c) is value(r, c), rounded to the dtype.
  static TestTensor Of(DType dtype, int64_t rows, int64_t cols,
                       const std::function<float(int64_t, int64_t)>& value,
                       Layout layout = Layout::kContiguous) {
    TestTensor tensor(dtype, rows, cols, layout);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) tensor.Set(r, c, value(r, c));
    }
    return tensor;
  }
  static TestTensor Row(DType dtype, const std::vector<float>& values) {
    return Of(dtype, 1, static_cast<int64_t>(values.size()),
              [&](int64_t, int64_t c) { return values[c]; });
  }

  TensorView view() {
    TensorView view;
    view.data = bytes_.data();
    view.dtype = dtype_;
    view.rows = rows_;
    view.cols = cols_;
    view.row_stride = row_stride_;
    view.col_stride = col_stride_;
    return view;
  }

  float at(int64_t r, int64_t c) const {
    return LoadFloat(dtype_, bytes_.data(), r * row_stride_ + c * col_stride_);
  }
  void Set(int64_t r, int64_t c, float value) {
    StoreFloat(dtype_, value, bytes_.data(), r * row_stride_ + c * col_stride_);
  }
  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  int64_t rows_, cols_;
  int64_t row_stride_ = 0, col_stride_ = 1;
  DType dtype_;
  std::vector<uint8_t> bytes_;  // operator new aligns it for every dtype
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TESTS_TESTING_TEST_TENSOR_H_
