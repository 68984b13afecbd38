// Element loops over host memory. The formulas are those of numerics/.
//
// Work goes tile by tile: up to 128 x 128 values are loaded as float32 in the
// order of the codes, whichever way the view lies, and stay in the cache while
// blocks are measured, encoded and turned. Every block lies in one tile, except
// those of a whole row, whose amaxes are known before.
#include "quantizer/block_kernels_host.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "numerics/hadamard.h"
#include "numerics/nvfp4.h"
#include "quantizer/block_factor.h"
#include "quantizer/elements_host.h"

namespace scalekeeper::kernels::host {
namespace {

constexpr int64_t kTile = 128;  // columns, and the most rows

// Part of a matrix of values or codes; tiles are stored with a stride of kTile.
struct Window {
  int64_t r0, c0, rows, cols;
};

// Calls f with every window of at most tile_rows x kTile.
template <typename F>
void ForEachTile(int64_t rows, int64_t cols, int64_t tile_rows, F f) {
  for (int64_t r0 = 0; r0 < rows; r0 += tile_rows) {
    for (int64_t c0 = 0; c0 < cols; c0 += kTile) {
      f(Window{r0, c0, std::min(tile_rows, rows - r0),
               std::min(kTile, cols - c0)});
    }
  }
}

// Visits (row in the window, column in it, offset in `view`) along the smaller
// stride.
template <typename View, typename F>
inline void VisitWindow(const View& view, const Window& w, F f) {
  const int64_t rs = view.row_stride;
  const int64_t cs = view.col_stride;
  const int64_t base = w.r0 * rs + w.c0 * cs;
  if (cs == 1) {
    for (int64_t r = 0; r < w.rows; ++r) {
      for (int64_t c = 0; c < w.cols; ++c) f(r, c, base + r * rs + c);
    }
  } else if (cs <= rs) {
    for (int64_t r = 0; r < w.rows; ++r) {
      for (int64_t c = 0; c < w.cols; ++c) f(r, c, base + r * rs + c * cs);
    }
  } else {
    for (int64_t c = 0; c < w.cols; ++c) {
      for (int64_t r = 0; r < w.rows; ++r) f(r, c, base + r * rs + c * cs);
    }
  }
}

template <typename In>
void LoadTile(const ConstTensorView& v, const Window& w, float* tile) {
  const auto* data = Data<In>(v);
  VisitWindow(v, w, [=](int64_t r, int64_t c, int64_t at) {
    tile[r * kTile + c] = In::Load(data[at]);
  });
}

template <typename Out>
void StoreTile(const float* tile, const Window& w, const TensorView& out) {
  auto* data = static_cast<typename Out::Storage*>(out.data);
  VisitWindow(out, w, [=](int64_t r, int64_t c, int64_t at) {
    data[at] = Out::Store(tile[r * kTile + c]);
  });
}

// The transform along the rows of a tile, rounded to the tensor's dtype.
template <typename In>
void TransformTile(const Window& w, float* tile) {
  for (int64_t r = 0; r < w.rows; ++r) {
    for (int64_t c = 0; c < w.cols; c += kHadamardSize) {
      float* v = tile + r * kTile + c;
      HadamardTransform(v);
      for (int i = 0; i < kHadamardSize; ++i) v[i] = In::Load(In::Store(v[i]));
    }
  }
}

uint32_t BlockAmax(const float* values, int64_t rows, int64_t cols) {
  int32_t amax = 0;
  for (int64_t r = 0; r < rows; ++r) {
    amax = std::max(amax, RowAmax<F32>(values + r * kTile, cols, 1));
  }
  return static_cast<uint32_t>(amax);
}

float SumOfErrors(const float* values, int64_t rows, int64_t cols,
                  const BlockFactor& f) {
  float sum = 0;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      sum += Nvfp4Error(values[r * kTile + c], f.scale, f.inverse);
    }
  }
  return sum;
}

// One pass over a tensor: the codes of `direct` and those of `turned`, their
// transpose. Either may be missing.
struct Pass {
  ConstTensorView v;  // in the direction of `direct`
  const BlockUse* direct = nullptr;
  const BlockUse* turned = nullptr;
  uint32_t* amax = nullptr;
  CastCounters* counters = nullptr;

  const BlockUse& source() const {
    return direct != nullptr ? *direct : *turned;
  }
};

template <typename Out>
void Encode(const Pass& pass, const BlockCastSpec& spec, const float* values,
            int64_t row, int64_t col, int64_t count, float scale,
            uint8_t* codes) {
  if (!spec.stochastic_rounding) {
    for (int64_t i = 0; i < count; ++i)
      codes[i] = Out::Store(values[i] * scale);
    return;
  }
  const int64_t first = row * pass.v.cols + col;
  RandomWords draws = {};
  for (int64_t i = 0; i < count; ++i) {
    const int64_t index = first + i;
    if (i == 0 || index % 4 == 0) {
      draws = RandomDraws(spec.random_key, *spec.step, index / 4);
    }
    codes[i] = EncodeE2M1Stochastic(values[i] * scale, draws.words[index % 4]);
  }
}

template <typename Out>
void Count(const float* values, const uint8_t* codes, int64_t count,
           float scale, CastCounters* counters) {
  for (int64_t i = 0; i < count; ++i) {
    if (values[i] != 0) {
      ++counters->nonzero;
      if (Out::Load(codes[i]) == 0) ++counters->underflow;
    }
    if (std::abs(values[i] * scale) > Out::kMax) ++counters->saturation;
    if (!std::isfinite(values[i])) ++counters->non_finite;
  }
}

// Packs E2M1 codes: code i of `count` is codes[i * stride].
void StoreCodes(Format format, const uint8_t* codes, int64_t count,
                int64_t stride, uint8_t* out) {
  if (format != Format::kE2M1) {
    for (int64_t i = 0; i < count; ++i) out[i] = codes[i * stride];
    return;
  }
  for (int64_t i = 0; i < count; i += 2) {
    const uint8_t high = i + 1 < count ? codes[(i + 1) * stride] : uint8_t{0};
    out[i / 2] = static_cast<uint8_t>(codes[i * stride] | (high << 4));
  }
}

void StoreUses(const Pass& pass, Format format, const Window& w,
               const uint8_t* codes) {
  if (pass.direct != nullptr) {
    uint8_t* out = pass.direct->codes +
                   w.r0 * CodeRowBytes(format, pass.v.cols) +
                   CodeRowBytes(format, w.c0);
    for (int64_t r = 0; r < w.rows; ++r) {
      StoreCodes(format, codes + r * kTile, w.cols, 1,
                 out + r * CodeRowBytes(format, pass.v.cols));
    }
  }
  if (pass.turned == nullptr) return;
  uint8_t* out = pass.turned->codes + w.c0 * CodeRowBytes(format, pass.v.rows) +
                 CodeRowBytes(format, w.r0);
  for (int64_t c = 0; c < w.cols; ++c) {
    StoreCodes(format, codes + c, w.rows, kTile,
               out + c * CodeRowBytes(format, pass.v.rows));
  }
}

TensorFactor PrepareUse(const Pass& pass, const BlockCastSpec& spec) {
  const BlockUse& use = pass.source();
  const TensorFactor tensor = TensorFactorOf(use, spec);
  if (use.scales.type == ScaleType::kE4M3) {
    for (const BlockUse* u : {pass.direct, pass.turned}) {
      if (u != nullptr) *u->scales.tensor_scale_inv = tensor.scale_inv;
    }
  }
  if (use.line_amax != nullptr) {
    for (int64_t row = 0; row < pass.v.rows; ++row) {
      WriteScale(use.scales, row, 0, pass.v.rows,
                 FloatFactor(use.line_amax[row], spec));
    }
  }
  return tensor;
}

BlockFactor FactorOfBlock(const BlockScales& scales, const BlockCastSpec& spec,
                          const TensorFactor& tensor, const float* values,
                          int64_t rows, int64_t cols) {
  const BlockFactor first =
      FactorFromAmax(scales.type, BlockAmax(values, rows, cols), tensor, spec);
  if (scales.type != ScaleType::kE4M3 || !spec.four_over_six) return first;
  return BetterOfFourAndSix(first, tensor, [&](const BlockFactor& f) {
    return SumOfErrors(values, rows, cols, f);
  });
}

template <typename In, typename Out>
void CastPass(const Pass& pass, const BlockCastSpec& spec) {
  const BlockUse& use = pass.source();
  const BlockScales& scales = use.scales;
  const TensorFactor tensor = PrepareUse(pass, spec);
  const int64_t block_rows = scales.block_rows;
  // Blocks of a whole row are cut at the tile's edge: their scale is known.
  const int64_t block_cols = std::min(scales.block_cols, kTile);
  const int64_t tile_rows = block_rows == kTile ? kTile : kTile / 2;
  uint32_t amax = 0;
  alignas(64) float values[kTile * kTile];
  alignas(64) uint8_t codes[kTile * kTile];

  ForEachTile(pass.v.rows, pass.v.cols, tile_rows, [&](const Window& w) {
    LoadTile<In>(pass.v, w, values);
    if (pass.amax != nullptr) {
      amax = MaxBits(amax, BlockAmax(values, w.rows, w.cols));
    }
    if (use.hadamard) TransformTile<In>(w, values);
    for (int64_t r = 0; r < w.rows; r += block_rows) {
      const int64_t rows = std::min(block_rows, w.rows - r);
      for (int64_t c = 0; c < w.cols; c += block_cols) {
        const int64_t cols = std::min(block_cols, w.cols - c);
        const float* block = values + r * kTile + c;
        BlockFactor factor;
        if (use.line_amax != nullptr) {
          factor = FloatFactor(use.line_amax[w.r0 + r], spec);
        } else {
          factor = FactorOfBlock(scales, spec, tensor, block, rows, cols);
          const int64_t grid_row = (w.r0 + r) / block_rows;
          const int64_t grid_col = (w.c0 + c) / block_cols;
          if (pass.direct != nullptr) {
            WriteScale(pass.direct->scales, grid_row, grid_col, pass.v.rows,
                       factor);
          }
          if (pass.turned != nullptr) {
            WriteScale(pass.turned->scales, grid_col, grid_row, pass.v.cols,
                       factor);
          }
        }
        for (int64_t i = 0; i < rows; ++i) {
          uint8_t* row_codes = codes + (r + i) * kTile + c;
          Encode<Out>(pass, spec, block + i * kTile, w.r0 + r + i, w.c0 + c,
                      cols, factor.scale, row_codes);
          if (pass.counters != nullptr) {
            Count<Out>(block + i * kTile, row_codes, cols, factor.scale,
                       pass.counters);
          }
        }
      }
    }
    StoreUses(pass, spec.format, w, codes);
  });
  if (pass.amax != nullptr) *pass.amax = MaxBits(*pass.amax, amax);
}

void Run(const Pass& pass, const BlockCastSpec& spec) {
  WithType(pass.v.dtype, [&](auto in) {
    WithType(spec.format, [&](auto code) {
      CastPass<decltype(in), decltype(code)>(pass, spec);
    });
  });
}

// The values of all codes of a format.
std::array<float, 256> DecodeTable(Format format) {
  std::array<float, 256> table;
  for (size_t code = 0; code < table.size(); ++code) {
    table[code] = Decode(format, static_cast<uint8_t>(code));
  }
  return table;
}

// table[code] * scale_inv of the codes of a window.
void DecodeTile(const uint8_t* codes, const std::array<float, 256>& table,
                bool packed, int64_t row_bytes, const BlockScales& scales,
                const Window& w, float* tile) {
  for (int64_t r = 0; r < w.rows; ++r) {
    const uint8_t* row = codes + (w.r0 + r) * row_bytes;
    float* values = tile + r * kTile;
    for (int64_t c = 0; c < w.cols;) {
      const int64_t col = w.c0 + c;
      const int64_t block_end =
          (col / scales.block_cols + 1) * scales.block_cols - w.c0;
      const int64_t end = std::min(w.cols, block_end);
      const float scale_inv = ScaleInverseAt(scales, w.r0 + r, col);
      if (packed) {
        for (; c < end; ++c) {
          const int64_t at = w.c0 + c;
          const int nibble = row[at / 2] >> (at % 2 * 4) & 0xF;
          values[c] = table[static_cast<size_t>(nibble)] * scale_inv;
        }
      } else {
        for (; c < end; ++c) values[c] = table[row[w.c0 + c]] * scale_inv;
      }
    }
  }
}

}  // namespace

void BlockCast(const ConstTensorView& x, const BlockCastSpec& spec,
               const BlockCastOutput& out) {
  if (x.empty()) {
    for (const bool column_wise : {false, true}) {
      const BlockUse& use = column_wise ? out.column_wise : out.row_wise;
      const int64_t code_rows = column_wise ? x.cols : x.rows;
      if (!EmptyUseHasScales(use, code_rows)) continue;
      ScaleEmptyUse(use, spec, code_rows, 0, 1);
    }
    return;
  }
  const BlockUse* row_wise =
      out.row_wise.codes != nullptr ? &out.row_wise : nullptr;
  const BlockUse* column_wise =
      out.column_wise.codes != nullptr ? &out.column_wise : nullptr;
  Pass pass;
  pass.amax = out.amax;
  pass.counters = out.counters;
  pass.v = x;
  pass.direct = row_wise;
  const bool transpose = column_wise != nullptr && IsTransposed(*column_wise);
  if (transpose) pass.turned = column_wise;
  if (pass.direct != nullptr || pass.turned != nullptr) {
    Run(pass, spec);
    pass.amax = nullptr;
    pass.counters = nullptr;
  }
  if (column_wise == nullptr || transpose) return;
  pass.v = ConstTensorView(x.Transposed());
  pass.direct = column_wise;
  pass.turned = nullptr;
  Run(pass, spec);
}

uint32_t HadamardAmax(const ConstTensorView& x) {
  const ConstTensorView v(x.Transposed());
  uint32_t amax = 0;
  alignas(64) float values[kTile * kTile];
  WithType(v.dtype, [&](auto in) {
    using In = decltype(in);
    ForEachTile(v.rows, v.cols, kTile / 2, [&](const Window& w) {
      LoadTile<In>(v, w, values);
      TransformTile<In>(w, values);
      amax = MaxBits(amax, BlockAmax(values, w.rows, w.cols));
    });
  });
  return amax;
}

void LineAmaxes(const ConstTensorView& x, uint32_t* row_amax,
                uint32_t* col_amax) {
  if (row_amax != nullptr) std::fill_n(row_amax, x.rows, 0u);
  if (col_amax != nullptr) std::fill_n(col_amax, x.cols, 0u);
  alignas(64) float values[kTile * kTile];
  WithType(x.dtype, [&](auto in) {
    using In = decltype(in);
    ForEachTile(x.rows, x.cols, kTile / 2, [&](const Window& w) {
      LoadTile<In>(x, w, values);
      int32_t columns[kTile] = {};
      for (int64_t r = 0; r < w.rows; ++r) {
        const float* row = values + r * kTile;
        if (row_amax != nullptr) {
          row_amax[w.r0 + r] =
              MaxBits(row_amax[w.r0 + r],
                      static_cast<uint32_t>(RowAmax<F32>(row, w.cols, 1)));
        }
        for (int64_t c = 0; c < w.cols; ++c) {
          columns[c] = std::max(columns[c], MagnitudeBits(row[c]));
        }
      }
      if (col_amax == nullptr) return;
      for (int64_t c = 0; c < w.cols; ++c) {
        col_amax[w.c0 + c] =
            MaxBits(col_amax[w.c0 + c], static_cast<uint32_t>(columns[c]));
      }
    });
  });
}

void BlockDecode(const uint8_t* codes, Format format, const BlockScales& scales,
                 bool hadamard, const TensorView& out) {
  const std::array<float, 256> table = DecodeTable(format);
  const int64_t row_bytes = CodeRowBytes(format, out.cols);
  alignas(64) float values[kTile * kTile];
  WithType(out.dtype, [&](auto to) {
    ForEachTile(out.rows, out.cols, kTile / 2, [&](const Window& w) {
      DecodeTile(codes, table, format == Format::kE2M1, row_bytes, scales, w,
                 values);
      if (hadamard) {
        for (int64_t r = 0; r < w.rows; ++r) {
          for (int64_t c = 0; c < w.cols; c += kHadamardSize) {
            InverseHadamardTransform(values + r * kTile + c);
          }
        }
      }
      StoreTile<decltype(to)>(values, w, out);
    });
  });
}

}  // namespace scalekeeper::kernels::host
