// Loops over elements, one instantiation per input dtype and format, so that no
// inner loop has a switch. The formulas are those of numerics/.
//
// Casts go tile by tile: a tile of 64 x 64 codes stays in the first-level cache
// while it is turned for the column-wise copy, and a view with a large column
// stride still reads each cache line once.
#include "quantizer/kernels_host.h"

#include <algorithm>
#include <cmath>

#include "numerics/amax.h"
#include "quantizer/elements_host.h"

namespace scalekeeper::kernels::host {
namespace {

constexpr int64_t kTile = 64;

template <typename In, typename Out>
void CastRow(const typename In::Storage* x, int64_t count, int64_t stride,
             float scale, typename Out::Storage* out) {
  if (stride == 1) {
    for (int64_t i = 0; i < count; ++i) {
      out[i] = Out::Store(In::Load(x[i]) * scale);
    }
  } else {
    for (int64_t i = 0; i < count; ++i) {
      out[i] = Out::Store(In::Load(x[i * stride]) * scale);
    }
  }
}

template <typename In, typename Out>
void CastTiles(const ConstTensorView& x, float scale, const CastOutput& out) {
  int32_t amax = 0;
  uint8_t scratch[kTile * kTile];
  for (int64_t r0 = 0; r0 < x.rows; r0 += kTile) {
    const int64_t rows = std::min(kTile, x.rows - r0);
    for (int64_t c0 = 0; c0 < x.cols; c0 += kTile) {
      const int64_t cols = std::min(kTile, x.cols - c0);
      const bool in_place = out.row_wise != nullptr;
      uint8_t* tile = in_place ? out.row_wise + r0 * x.cols + c0 : scratch;
      const int64_t tile_stride = in_place ? x.cols : kTile;
      for (int64_t r = 0; r < rows; ++r) {
        const auto* row =
            Data<In>(x) + (r0 + r) * x.row_stride + c0 * x.col_stride;
        CastRow<In, Out>(row, cols, x.col_stride, scale,
                         tile + r * tile_stride);
        if (out.amax != nullptr) {
          amax = std::max(amax, RowAmax<In>(row, cols, x.col_stride));
        }
      }
      if (out.column_wise == nullptr) continue;
      for (int64_t c = 0; c < cols; ++c) {
        uint8_t* turned = out.column_wise + (c0 + c) * x.rows + r0;
        for (int64_t r = 0; r < rows; ++r) {
          turned[r] = tile[r * tile_stride + c];
        }
      }
    }
  }
  if (out.amax != nullptr) {
    *out.amax = MaxBits(*out.amax, static_cast<uint32_t>(amax));
  }
}

// out = Load(x) * factor, rounded to Out.
template <typename In, typename Out>
void ScaleElements(const ConstTensorView& x, float factor,
                   const TensorView& out) {
  auto* to = static_cast<typename Out::Storage*>(out.data);
  for (int64_t r0 = 0; r0 < x.rows; r0 += kTile) {
    const int64_t r1 = std::min(r0 + kTile, x.rows);
    for (int64_t c0 = 0; c0 < x.cols; c0 += kTile) {
      const int64_t c1 = std::min(c0 + kTile, x.cols);
      for (int64_t r = r0; r < r1; ++r) {
        for (int64_t c = c0; c < c1; ++c) {
          const auto element = Data<In>(x)[r * x.row_stride + c * x.col_stride];
          to[r * out.row_stride + c * out.col_stride] =
              Out::Store(In::Load(element) * factor);
        }
      }
    }
  }
}

template <typename In, typename Out>
Statistics MeasureElements(const ConstTensorView& x, float scale,
                           float scale_inv) {
  Statistics s;
  s.scale = scale;
  s.scale_inv = scale_inv;
  s.count = x.size();
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t c = 0; c < x.cols; ++c) {
      const float v =
          In::Load(Data<In>(x)[r * x.row_stride + c * x.col_stride]);
      const float scaled = v * scale;
      const float code_value = Out::Load(Out::Store(scaled));
      s.amax_bits = MaxBits(s.amax_bits, AmaxBits(v));
      if (v != 0) {
        ++s.nonzero;
        if (code_value == 0) ++s.underflow;
      }
      if (std::abs(scaled) > Out::kMax) ++s.saturation;
      if (!std::isfinite(v)) {
        ++s.non_finite;
        continue;
      }
      const double back = code_value * scale_inv;
      s.signal += static_cast<double>(v) * v;
      s.error += (v - back) * (v - back);
    }
  }
  return s;
}

}  // namespace

uint32_t Amax(const ConstTensorView& x) {
  // The order does not matter: run along the smaller stride.
  const ConstTensorView v =
      x.col_stride <= x.row_stride ? x : ConstTensorView(x.Transposed());
  int32_t amax = 0;
  WithType(v.dtype, [&](auto in) {
    using In = decltype(in);
    for (int64_t r = 0; r < v.rows; ++r) {
      amax = std::max(amax, RowAmax<In>(Data<In>(v) + r * v.row_stride, v.cols,
                                        v.col_stride));
    }
  });
  return static_cast<uint32_t>(amax);
}

void Cast(const ConstTensorView& x, float scale, Format format,
          const CastOutput& out) {
  WithType(x.dtype, [&](auto in) {
    WithType(format, [&](auto code) {
      CastTiles<decltype(in), decltype(code)>(x, scale, out);
    });
  });
}

void Decode(const ConstTensorView& codes, Format format, float scale_inv,
            const TensorView& out) {
  WithType(format, [&](auto code) {
    WithType(out.dtype, [&](auto to) {
      ScaleElements<decltype(code), decltype(to)>(codes, scale_inv, out);
    });
  });
}

void Convert(const ConstTensorView& x, const TensorView& out) {
  WithType(x.dtype, [&](auto in) {
    WithType(out.dtype, [&](auto to) {
      ScaleElements<decltype(in), decltype(to)>(x, 1.0f, out);
    });
  });
}

Statistics MeasureCast(const ConstTensorView& x, float scale, float scale_inv,
                       Format format) {
  Statistics result;
  WithType(x.dtype, [&](auto in) {
    WithType(format, [&](auto code) {
      result =
          MeasureElements<decltype(in), decltype(code)>(x, scale, scale_inv);
    });
  });
  return result;
}

Statistics MeasureConvert(const ConstTensorView& x, DType dtype) {
  Statistics result;
  WithType(x.dtype, [&](auto in) {
    WithType(dtype, [&](auto to) {
      result = MeasureElements<decltype(in), decltype(to)>(x, 1.0f, 1.0f);
    });
  });
  return result;
}

}  // namespace scalekeeper::kernels::host
