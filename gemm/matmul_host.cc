// The host reference: exact products of float32-valued operands, summed in
// double in the order of k, rounded once.
//
// Both operands are decoded once into panels of doubles: four rows of A side by
// side for each k, and four columns of B. The inner loop then reads two streams
// and keeps a 4 x 4 block of sums in registers; the order of every sum is that
// of the naive triple loop, so blocking, layout and transposition change no
// bit.
#include <algorithm>
#include <array>
#include <vector>

#include "absl/types/span.h"
#include "base/buffer.h"
#include "base/status_macros.h"
#include "gemm/custom_operands.h"
#include "gemm/matmul_problem.h"
#include "numerics/activation.h"
#include "numerics/amax.h"
#include "numerics/convert.h"

namespace scalekeeper::internal {
namespace {

constexpr int64_t kBlock = 4;
// Panels of A that are reused while a panel of B streams by: about half of a
// second-level cache.
constexpr int64_t kPanelBytes = int64_t{256} << 10;

int64_t RoundUpToBlock(int64_t n) { return (n + kBlock - 1) / kBlock * kBlock; }

// Value of each code as a double.
using CodeTable = std::array<double, 256>;

CodeTable MakeCodeTable(Format format) {
  CodeTable table;
  for (size_t code = 0; code < table.size(); ++code) {
    table[code] = Decode(format, static_cast<uint8_t>(code));
  }
  return table;
}

const CodeTable& CodeTableOf(Format format) {
  static const CodeTable e4m3 = MakeCodeTable(Format::kE4M3);
  static const CodeTable e5m2 = MakeCodeTable(Format::kE5M2);
  static const CodeTable e2m1 = MakeCodeTable(Format::kE2M1);
  switch (format) {
    case Format::kE4M3:
      return e4m3;
    case Format::kE5M2:
      return e5m2;
    case Format::kE2M1:
      break;
  }
  return e2m1;
}

// panels[p][k][i] = load(element (4 p + i, k) of `values`); rows beyond the
// last are 0. Walks along the smaller stride.
template <typename T, typename Load>
void PackAs(const ConstTensorView& values, double* panels, Load load) {
  const T* data = static_cast<const T*>(values.data);
  const int64_t depth = values.cols;
  for (int64_t r0 = 0; r0 < values.rows; r0 += kBlock) {
    double* panel = panels + r0 * depth;
    const int64_t rows = std::min(kBlock, values.rows - r0);
    if (rows < kBlock) std::fill(panel, panel + kBlock * depth, 0.0);
    const T* first = data + r0 * values.row_stride;
    if (values.col_stride <= values.row_stride) {
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t k = 0; k < depth; ++k) {
          panel[k * kBlock + i] =
              load(first[i * values.row_stride + k * values.col_stride]);
        }
      }
    } else {
      for (int64_t k = 0; k < depth; ++k) {
        for (int64_t i = 0; i < rows; ++i) {
          panel[k * kBlock + i] =
              load(first[i * values.row_stride + k * values.col_stride]);
        }
      }
    }
  }
}

// The same for codes with a scale each: an exact product in double.
void PackScaled(const MatmulInput& input, double* panels) {
  const ConstTensorView& values = input.values;
  const CodeTable& table = CodeTableOf(input.format);
  const int64_t depth = values.cols;
  const int64_t block = std::max<int64_t>(1, input.grid.col_block());
  const int64_t first =
      input.grid.is_transposed ? input.grid.first_row : input.grid.first_col;
  for (int64_t r = 0; r < RoundUpToBlock(values.rows); ++r) {
    double* column = panels + r / kBlock * kBlock * depth + r % kBlock;
    for (int64_t k = 0; k < depth;) {
      const int64_t end = std::min(depth, k + block - (first + k) % block);
      const double scale =
          r < values.rows ? ScaleInverseAt(input.grid, r, k) : 0.0;
      for (; k < end; ++k) {
        const int64_t at = r * values.row_stride + k * values.col_stride;
        column[k * kBlock] =
            r < values.rows
                ? table[CodeAt(values.data, input.format, at)] * scale
                : 0.0;
      }
    }
  }
}

// `input` is outer x K.
void Pack(const MatmulInput& input, double* panels) {
  const ConstTensorView& values = input.values;
  if (input.is_codes() && !input.is_per_tensor()) {
    return PackScaled(input, panels);
  }
  switch (values.dtype) {
    case DType::kUint8: {
      const CodeTable& table = CodeTableOf(input.format);
      PackAs<uint8_t>(values, panels,
                      [&table](uint8_t code) { return table[code]; });
      break;
    }
    case DType::kF32:
      PackAs<float>(values, panels,
                    [](float x) { return static_cast<double>(x); });
      break;
    case DType::kBF16:
      PackAs<uint16_t>(values, panels, [](uint16_t x) {
        return static_cast<double>(FloatFromBF16(x));
      });
      break;
    case DType::kF16:
      PackAs<uint16_t>(values, panels, [](uint16_t x) {
        return static_cast<double>(FloatFromF16(x));
      });
      break;
  }
}

// What is left to multiply sums with: the scale of a whole tensor.
double TensorScale(const MatmulInput& input) {
  if (!input.is_per_tensor()) return 1.0;
  return static_cast<double>(ScaleInverseAt(input.grid, 0, 0));
}

using Sums = std::array<double, kBlock * kBlock>;

// sums[i][j] = sum over k of a[k][i] * b[k][j].
void MultiplyPanels(const double* __restrict a, const double* __restrict b,
                    int64_t depth, Sums* out) {
  double sums[kBlock * kBlock] = {};
  for (int64_t k = 0; k < depth; ++k) {
    for (int64_t i = 0; i < kBlock; ++i) {
      for (int64_t j = 0; j < kBlock; ++j) {
        sums[i * kBlock + j] += a[k * kBlock + i] * b[k * kBlock + j];
      }
    }
  }
  std::copy(std::begin(sums), std::end(sums), out->begin());
}

double Activate(Activation activation, double x) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return Relu(x);
    case Activation::kGelu:
      return Gelu(x);
  }
  return x;
}

// The code of a value of a product into codes; *amax takes the value in.
uint8_t EncodeOutput(const CodesOutput& codes, double value, uint32_t* amax) {
  const float rounded = static_cast<float>(value);
  *amax = MaxBits(*amax, AmaxBits(rounded));
  return Encode(codes.format, rounded * *codes.slot.scale);
}

// One block of sums into `out`, with all that is done per element.
void StoreBlock(const MatmulProblem& p, double scale, int64_t r0, int64_t c0,
                const Sums& sums, uint32_t* amax) {
  const int64_t rows = std::min(kBlock, p.out.rows - r0);
  const int64_t cols = std::min(kBlock, p.out.cols - c0);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) {
      const int64_t at =
          (r0 + i) * p.out.row_stride + (c0 + j) * p.out.col_stride;
      double value = sums[static_cast<size_t>(i * kBlock + j)] * scale;
      if (p.bias) {
        value += LoadFloat(p.bias->dtype, p.bias->data,
                           (c0 + j) * p.bias->col_stride);
      }
      value = Activate(p.activation, value);
      if (p.codes) {
        const uint8_t code = EncodeOutput(*p.codes, value, amax);
        static_cast<uint8_t*>(p.out.data)[at] = code;
        if (p.codes->column_wise_codes != nullptr) {
          p.codes->column_wise_codes[(c0 + j) * p.out.rows + r0 + i] = code;
        }
        continue;
      }
      if (p.accumulate) value += LoadFloat(p.out.dtype, p.out.data, at);
      StoreDouble(p.out.dtype, value, p.out.data, at);
    }
  }
}

void MultiplyOnHost(const MatmulProblem& p) {
  if (p.codes) {
    for (float* scale_inv :
         {p.codes->row_wise_scale_inv, p.codes->column_wise_scale_inv}) {
      if (scale_inv != nullptr) *scale_inv = *p.codes->slot.scale_inv;
    }
  }
  if (p.out.empty()) return;
  const int64_t depth = p.a.values.cols;
  const int64_t rows = RoundUpToBlock(p.out.rows);
  const int64_t cols = RoundUpToBlock(p.out.cols);
  thread_local std::vector<double> scratch;
  scratch.resize(static_cast<size_t>((rows + cols) * depth));
  double* a = scratch.data();
  double* b = a + rows * depth;
  Pack(p.a, a);
  Pack(p.b.Transposed(), b);

  // The product of two float32 is exact in double.
  const double scale = TensorScale(p.a) * TensorScale(p.b);
  const int64_t panel_bytes = std::max<int64_t>(1, depth) * kBlock *
                              static_cast<int64_t>(sizeof(double));
  const int64_t chunk =
      std::max<int64_t>(1, kPanelBytes / panel_bytes) * kBlock;
  Sums sums;
  uint32_t amax = 0;
  for (int64_t chunk_start = 0; chunk_start < rows; chunk_start += chunk) {
    const int64_t chunk_end = std::min(chunk_start + chunk, rows);
    for (int64_t c0 = 0; c0 < cols; c0 += kBlock) {
      for (int64_t r0 = chunk_start; r0 < chunk_end; r0 += kBlock) {
        MultiplyPanels(a + r0 * depth, b + c0 * depth, depth, &sums);
        StoreBlock(p, scale, r0, c0, sums, &amax);
      }
    }
  }
  if (p.codes) Observe(p.codes->slot, amax);
}

}  // namespace

absl::Status MatmulHost(absl::Span<const MatmulProblem> problems) {
  thread_local BufferPool pool(HostAllocator());
  CustomOperands customs(&pool, DType::kF32, Stream());
  for (const MatmulProblem& p : problems) {
    if (!HasCustom(p)) {
      MultiplyOnHost(p);
      continue;
    }
    MatmulProblem plain = p;
    SK_RETURN_IF_ERROR(customs.Read(&plain));
    MultiplyOnHost(plain);
  }
  return absl::OkStatus();
}

}  // namespace scalekeeper::internal
