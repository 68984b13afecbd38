// Schemes of block scalings that the kernels know, and a rig that runs a cast
// on a GPU or on the host between guards, every byte of which can be compared.
#ifndef SCALEKEEPER_TESTS_QUANTIZER_BLOCK_KERNELS_CUDA_TESTING_H_
#define SCALEKEEPER_TESTS_QUANTIZER_BLOCK_KERNELS_CUDA_TESTING_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/buffer.h"
#include "base/device_memory.h"
#include "gtest/gtest.h"
#include "numerics/bits.h"
#include "quantizer/block_kernels.h"
#include "quantizer/scale_grid.h"
#include "tests/amax/cuda_state_testing.h"
#include "tests/quantizer/block_testing.h"
#include "tests/testing/device_bytes.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/test_tensor.h"

namespace scalekeeper {

inline const Device kGpu = Device::Cuda(0);
inline constexpr Usages kBoth = {true, true};

// A scaling, and where its scales lie.
struct Scheme {
  std::string name;
  ScaleType type = ScaleType::kFloat;
  bool line = false;  // blocks of a whole row
  bool square = false;
  ScaleLayout layout = ScaleLayout::kStrided;
  bool hadamard = false;  // of the column-wise use
  kernels::BlockCastSpec spec;
};

inline int64_t SideOf(ScaleType type) {
  if (type == ScaleType::kFloat) return 128;
  return type == ScaleType::kE8M0 ? 32 : 16;
}

// Strided scales as GPUs want them: of 1 x 128 with rows running fastest, of
// squares with rows padded to 4.
inline BlockScales GridOf(const Scheme& scheme, int64_t code_rows,
                          int64_t code_cols) {
  const int64_t side = SideOf(scheme.type);
  BlockScales grid;
  grid.type = scheme.type;
  grid.layout = scheme.layout;
  grid.block_rows = scheme.square ? side : 1;
  grid.block_cols = scheme.line ? std::max<int64_t>(code_cols, 1) : side;
  grid.rows = (code_rows + grid.block_rows - 1) / grid.block_rows;
  grid.cols =
      scheme.line ? 1 : (code_cols + grid.block_cols - 1) / grid.block_cols;
  if (scheme.square) {
    grid.row_stride = (grid.cols + 3) / 4 * 4;
  } else {
    grid.row_stride = 1;
    grid.col_stride = grid.rows;
  }
  return grid;
}

// Without options.
inline std::vector<Scheme> PlainSchemes(Format fp8) {
  const bool e4m3 = fp8 == Format::kE4M3;
  std::vector<Scheme> schemes;
  const auto add = [&](const char* name, ScaleType type, bool line, bool square,
                       Format format) -> Scheme& {
    Scheme s;
    s.name = absl::StrCat(name, e4m3 ? "" : " E5M2");
    s.type = type;
    s.line = line;
    s.square = square;
    s.spec.format = format;
    s.spec.current.format_max = FormatMax(format);
    schemes.push_back(s);
    return schemes.back();
  };
  add("line", ScaleType::kFloat, true, false, fp8);
  add("1x128", ScaleType::kFloat, false, false, fp8);
  add("128x128", ScaleType::kFloat, false, true, fp8);
  for (ScaleLayout layout : {ScaleLayout::kStrided, ScaleLayout::kTiled}) {
    const std::string tiled =
        layout == ScaleLayout::kTiled ? " tiled" : " strided";
    for (bool square : {false, true}) {
      Scheme& mx =
          add(square ? "32x32" : "1x32", ScaleType::kE8M0, false, square, fp8);
      mx.layout = layout;
      mx.name += tiled;
      if (!e4m3) continue;
      Scheme& nv = add(square ? "16x16" : "1x16", ScaleType::kE4M3, false,
                       square, Format::kE2M1);
      nv.layout = layout;
      nv.name += tiled;
    }
  }
  return schemes;
}

// Those, and NVFP4's options.
inline std::vector<Scheme> AllSchemes() {
  std::vector<Scheme> schemes = PlainSchemes(Format::kE4M3);
  const size_t plain = schemes.size();
  for (size_t i = 0; i < plain; ++i) {
    if (schemes[i].type != ScaleType::kE4M3) continue;
    Scheme s = schemes[i];
    s.spec.four_over_six = true;
    s.name = schemes[i].name + " 4/6";
    schemes.push_back(s);
    s = schemes[i];
    s.spec.stochastic_rounding = true;
    s.spec.random_key = MakeRandomKey(77, "m/grad", 6);
    s.name = schemes[i].name + " stochastic";
    schemes.push_back(s);
    if (s.square) continue;
    s.hadamard = true;
    s.name += " Hadamard";
    schemes.push_back(s);
    s.spec.stochastic_rounding = false;
    s.name = schemes[i].name + " Hadamard";
    schemes.push_back(s);
  }
  for (Scheme& s : PlainSchemes(Format::kE5M2)) schemes.push_back(std::move(s));
  return schemes;
}

// Those that kernels of tiles take, once each.
inline std::vector<Scheme> TileSchemes() {
  std::vector<Scheme> schemes;
  for (Scheme& s : AllSchemes()) {
    if (s.layout == ScaleLayout::kTiled || s.spec.four_over_six ||
        s.spec.format == Format::kE5M2 ||
        (s.square && s.spec.stochastic_rounding)) {
      continue;
    }
    schemes.push_back(std::move(s));
  }
  return schemes;
}

// D13: memory between guards; all of it is compared.
class Guarded {
 public:
  Guarded(Device device, size_t size)
      : bytes_(device, std::vector<uint8_t>(size + 2 * kGuard, 0xA5)) {}
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(bytes_.as<uint8_t>() + kGuard);
  }
  std::vector<uint8_t> All() const { return bytes_.Download(); }

 private:
  static constexpr size_t kGuard = 4096;  // more than a tile of scales
  DeviceBytes bytes_;
};

struct Words {
  uint32_t amax = 0;
  uint32_t unless = 0;
  uint32_t only_if = 1;
  uint32_t tensor_amax[2] = {0, 0};
  int64_t step = 5;
  kernels::CastCounters counters;
};

struct Case {
  Scheme scheme;
  Usages uses = kBoth;
  DType dtype = DType::kBF16;
  int64_t rows = 0, cols = 0;
  Layout layout = Layout::kContiguous;
  Fill fill = Fill::kWild;
  bool count = false;
  bool given = false;  // amaxes from elsewhere, not the tensor's own
};

inline std::string NameOf(const Case& c) {
  return absl::StrCat(c.scheme.name, " of ", Name(c.dtype), " ", c.rows, "x",
                      c.cols, " layout ", static_cast<int>(c.layout),
                      c.uses.row_wise ? " row" : "",
                      c.uses.column_wise ? " column" : "",
                      c.count ? " counted" : "", c.given ? " given" : "");
}

// Everything that a cast of x reads and writes, on one device.
class Rig {
 public:
  Rig(const Case& c, Device device, const TestTensor& x)
      : case_(c),
        device_(device),
        x_host_(x),
        x_(device, x.bytes()),
        words_(DeviceBytes::Of(device, Words())),
        uses_{Use(c, device, c.rows, c.cols), Use(c, device, c.cols, c.rows)} {
    if (!c.given) return;
    Words words;
    words.tensor_amax[0] = BitsFromFloat(2688.0f);
    words.tensor_amax[1] = BitsFromFloat(300.0f);
    Set(words);
    for (Use& use : uses_) {
      std::vector<uint32_t> lines(static_cast<size_t>(use.lines));
      for (size_t i = 0; i < lines.size(); ++i) {
        lines[i] = BitsFromFloat(100.0f + static_cast<float>(i % 7));
      }
      EXPECT_THAT(CopyFromHost(device, use.line_amax.as<uint32_t>(),
                               lines.data(), lines.size() * 4, Stream()),
                  IsOk());
    }
  }

  void Set(const Words& words) { words_.Upload(&words, sizeof(words)); }
  Words words() const { return words_.Get<Words>(); }
  void SetX(const TestTensor& x) {
    x_.Upload(x.bytes().data(), x.bytes().size());
  }

  // The amaxes that the cast needs, unless they are given, and the cast.
  void Quantize(Stream stream) {
    const Scheme& s = case_.scheme;
    const bool column = case_.uses.column_wise;
    if (s.line && !case_.given) {
      ASSERT_THAT(
          kernels::LineAmaxes(
              x(),
              case_.uses.row_wise ? uses_[0].line_amax.as<uint32_t>() : nullptr,
              column ? uses_[1].line_amax.as<uint32_t>() : nullptr, run(),
              stream),
          IsOk());
    } else if (s.type == ScaleType::kE4M3 && !case_.given) {
      uint32_t* amax = words_.as<Words>()->tensor_amax;
      kernels::TensorAmaxWords amaxes;
      if (case_.uses.row_wise) amaxes.row_wise = amax;
      if (column) amaxes.column_wise = amax + 1;
      amaxes.non_finite = &words_.as<Words>()->amax;
      ASSERT_THAT(kernels::TensorAmaxes(x(), s.hadamard, amaxes, run(), stream),
                  IsOk());
    }
    ASSERT_THAT(kernels::BlockCast(x(), spec(), output(), run(), stream),
                IsOk());
  }

  void QuantizeRows(Stream stream) {
    ASSERT_THAT(
        kernels::RowwiseCast(x(), spec(), output(),
                             uses_[0].line_amax.as<uint32_t>(), run(), stream),
        IsOk());
  }

  // Names and bytes of all that may have been written.
  std::vector<std::pair<std::string, std::vector<uint8_t>>> Written() const {
    std::vector<std::pair<std::string, std::vector<uint8_t>>> all;
    for (int i = 0; i < 2; ++i) {
      const char* use = i == 0 ? "row-wise " : "column-wise ";
      all.push_back({absl::StrCat(use, "codes"), uses_[i].codes.All()});
      all.push_back({absl::StrCat(use, "scales"), uses_[i].scales.All()});
      all.push_back(
          {absl::StrCat(use, "tensor scale"), uses_[i].tensor_inv.All()});
      all.push_back({absl::StrCat(use, "lines"), uses_[i].line_amax.All()});
    }
    Words w = words();
    // A NaN that the transform's arithmetic made has any payload.
    w.tensor_amax[1] = std::min(w.tensor_amax[1], kFloatInfBits + 1);
    std::vector<uint8_t> bytes(sizeof(Words));
    std::memcpy(bytes.data(), &w, sizeof(Words));
    all.push_back({"words", bytes});
    return all;
  }

  // float32 bits of a use's values, in the order of its codes.
  std::vector<uint32_t> Decoded(int use) {
    const bool column = use == 1;
    const int64_t rows = column ? case_.cols : case_.rows;
    const int64_t cols = column ? case_.rows : case_.cols;
    const size_t count = static_cast<size_t>(rows * cols);
    DeviceBytes values(device_, count * sizeof(float));
    EXPECT_THAT(kernels::BlockDecode(
                    uses_[use].codes.as<uint8_t>(), case_.scheme.spec.format,
                    Grid(use), column && case_.scheme.hadamard,
                    TensorView::Contiguous(values.as<float>(), DType::kF32,
                                           rows, cols, device_),
                    Stream()),
                IsOk());
    std::vector<uint32_t> bits(count);
    const std::vector<uint8_t> bytes = values.Download();
    std::memcpy(bits.data(), bytes.data(), bytes.size());
    for (uint32_t& b : bits) {
      if ((b & kFloatMagnitudeMask) > kFloatInfBits) b = 0x7FC00000u;
    }
    return bits;
  }

 private:
  struct Use {
    Use(const Case& c, Device device, int64_t rows, int64_t cols)
        : lines(rows),
          grid(GridOf(c.scheme, rows, cols)),
          codes(device, static_cast<size_t>(
                            rows * CodeRowBytes(c.scheme.spec.format, cols))),
          scales(device, ScaleBytes(grid, rows)),
          tensor_inv(device, sizeof(float)),
          line_amax(device, static_cast<size_t>(rows) * sizeof(uint32_t)) {}
    int64_t lines;
    BlockScales grid;
    Guarded codes, scales, tensor_inv, line_amax;
  };

  ConstTensorView x() {
    return OnDevice(x_host_.view(), device_, x_.as<uint8_t>());
  }
  kernels::BlockCastSpec spec() {
    kernels::BlockCastSpec spec = case_.scheme.spec;
    spec.step = &words_.as<Words>()->step;
    return spec;
  }
  kernels::RunIf run() {
    return {&words_.as<Words>()->unless, &words_.as<Words>()->only_if};
  }
  BlockScales Grid(int use) {
    BlockScales grid = uses_[use].grid;
    grid.data = uses_[use].scales.as<uint8_t>();
    grid.tensor_scale_inv = uses_[use].tensor_inv.as<float>();
    return grid;
  }
  kernels::BlockUse UseOf(int use) {
    kernels::BlockUse out;
    out.codes = uses_[use].codes.as<uint8_t>();
    out.scales = Grid(use);
    out.tensor_amax = &words_.as<Words>()->tensor_amax[use];
    if (case_.scheme.line) out.line_amax = uses_[use].line_amax.as<uint32_t>();
    out.hadamard = use == 1 && case_.scheme.hadamard;
    return out;
  }
  kernels::BlockCastOutput output() {
    kernels::BlockCastOutput out;
    if (case_.uses.row_wise) out.row_wise = UseOf(0);
    if (case_.uses.column_wise) out.column_wise = UseOf(1);
    out.amax = &words_.as<Words>()->amax;
    if (case_.count) out.counters = &words_.as<Words>()->counters;
    return out;
  }

  Case case_;
  Device device_;
  TestTensor x_host_;
  DeviceBytes x_;
  DeviceBytes words_;
  Use uses_[2];
};

inline void ExpectSame(const Rig& gpu, const Rig& host) {
  const auto got = gpu.Written();
  const auto want = host.Written();
  for (size_t i = 0; i < want.size(); ++i) {
    const auto& [name, bytes] = want[i];
    ASSERT_EQ(got[i].second.size(), bytes.size()) << name;
    const auto at =
        std::mismatch(bytes.begin(), bytes.end(), got[i].second.begin());
    if (at.first == bytes.end()) continue;
    ADD_FAILURE() << name << ", byte " << at.first - bytes.begin() << " of "
                  << bytes.size() << ", guards included: " << int{*at.second}
                  << ", want " << int{*at.first};
  }
}

inline void Compare(const Case& c, const TestTensor& x, bool decode = true) {
  SCOPED_TRACE(NameOf(c));
  Rig gpu(c, kGpu, x);
  Rig host(c, Device::Host(), x);
  gpu.Quantize(Stream());
  host.Quantize(Stream());
  ExpectSame(gpu, host);
  if (!decode) return;
  for (int use = 0; use < 2; ++use) {
    if (use == 0 ? !c.uses.row_wise : !c.uses.column_wise) continue;
    EXPECT_TRUE(gpu.Decoded(use) == host.Decoded(use))
        << "decoded, use " << use;
  }
}

inline void Compare(const Case& c) {
  Compare(c, FillTensor(c.fill, c.dtype, c.rows, c.cols, c.layout));
}

class BlockKernelsCudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    EndProcessAfter(150);  // per test
    if (GpuCount() < 1) GTEST_SKIP() << "needs a GPU";
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  }
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TESTS_QUANTIZER_BLOCK_KERNELS_CUDA_TESTING_H_
