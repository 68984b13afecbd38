// Tensors of more elements than an int32 counts, on a GPU: every block scaling,
// both uses, by the kernels of tiles and by those of any view. What lies at
// their end must be what the host makes of the end alone.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/device_memory.h"
#include "gtest/gtest.h"
#include "quantizer/block_kernels.h"
#include "quantizer/scale_grid.h"
#include "tests/quantizer/block_kernels_cuda_testing.h"
#include "tests/testing/device_bytes.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/test_tensor.h"

namespace scalekeeper {
namespace {

constexpr int64_t kCols = 4096;
// The last rows, which are not all the same: whole blocks of every scheme.
constexpr int64_t kTail = 128;
constexpr int64_t kRows = (int64_t{1} << 31) / kCols + kTail;

// A tensor of `rows` on a device, and memory for all that is made of it.
struct Side {
  Side(Device on, int64_t rows_in)
      : device(on),
        rows(rows_in),
        x(on, Count() * 2),
        back(on, Count() * 2),
        words(DeviceBytes::Of(on, Words())) {
    for (int use = 0; use < 2; ++use) {
      codes.emplace_back(on, Count());
      scales.emplace_back(on, Count() / 16 + 4096);
      lines.emplace_back(on, static_cast<size_t>(rows + kCols) * 4);
      inverses.emplace_back(on, sizeof(float));
    }
  }
  size_t Count() const { return static_cast<size_t>(rows * kCols); }
  ConstTensorView View() {
    return ConstTensorView::Contiguous(x.as<uint8_t>(), DType::kBF16, rows,
                                       kCols, device);
  }
  BlockScales Grid(const Scheme& scheme, int use) {
    BlockScales grid =
        use == 0 ? GridOf(scheme, rows, kCols) : GridOf(scheme, kCols, rows);
    grid.data = scales[static_cast<size_t>(use)].as<uint8_t>();
    grid.tensor_scale_inv = inverses[static_cast<size_t>(use)].as<float>();
    return grid;
  }
  kernels::BlockUse Use(const Scheme& scheme, int use) {
    const auto i = static_cast<size_t>(use);
    kernels::BlockUse out;
    out.codes = codes[i].as<uint8_t>();
    out.scales = Grid(scheme, use);
    out.tensor_amax = &words.as<Words>()->tensor_amax[use];
    if (scheme.line) out.line_amax = lines[i].as<uint32_t>();
    out.hadamard = use == 1 && scheme.hadamard;
    return out;
  }

  void Measure(const Scheme& scheme) {
    kernels::TensorAmaxWords amaxes;
    amaxes.row_wise = words.as<Words>()->tensor_amax;
    amaxes.column_wise = words.as<Words>()->tensor_amax + 1;
    ASSERT_THAT(
        kernels::TensorAmaxes(View(), scheme.hadamard, amaxes, {}, Stream()),
        IsOk());
    ASSERT_THAT(kernels::LineAmaxes(View(), lines[0].as<uint32_t>(),
                                    lines[1].as<uint32_t>(), {}, Stream()),
                IsOk());
  }
  // Both uses; or the column-wise one as the row-wise one of the transpose.
  void Cast(const Scheme& scheme, bool of_transpose) {
    for (size_t use = 0; use < 2; ++use) {
      ASSERT_THAT(
          FillBytes(device, codes[use].as<uint8_t>(), 0xCC, Count(), Stream()),
          IsOk());
      ASSERT_THAT(FillBytes(device, scales[use].as<uint8_t>(), 0xCC,
                            Count() / 16, Stream()),
                  IsOk());
    }
    kernels::BlockCastOutput out;
    out.amax = &words.as<Words>()->amax;
    if (of_transpose) {
      out.row_wise = Use(scheme, 1);
      ASSERT_THAT(kernels::BlockCast(ConstTensorView(View().Transposed()),
                                     scheme.spec, out, {}, Stream()),
                  IsOk());
    } else {
      out.row_wise = Use(scheme, 0);
      out.column_wise = Use(scheme, 1);
      ASSERT_THAT(kernels::BlockCast(View(), scheme.spec, out, {}, Stream()),
                  IsOk());
    }
  }
  void Decode(const Scheme& scheme) {
    ASSERT_THAT(kernels::BlockDecode(
                    codes[0].as<uint8_t>(), scheme.spec.format, Grid(scheme, 0),
                    /*hadamard=*/false,
                    TensorView::Contiguous(back.as<uint8_t>(), DType::kBF16,
                                           rows, kCols, device),
                    Stream()),
                IsOk());
  }

  // Bytes at `first` of a buffer.
  std::vector<uint8_t> Read(DeviceBytes& from, int64_t first, int64_t count) {
    std::vector<uint8_t> bytes(static_cast<size_t>(count));
    EXPECT_THAT(CopyToHost(device, bytes.data(), from.as<uint8_t>() + first,
                           bytes.size(), Stream()),
                IsOk());
    return bytes;
  }
  // The scale of the code at (row, col) of a use.
  std::vector<uint8_t> ScaleAt(const Scheme& scheme, int use, int64_t row,
                               int64_t col) {
    const int64_t size = scheme.type == ScaleType::kFloat ? 4 : 1;
    return Read(scales[static_cast<size_t>(use)],
                size * ScaleOffsetOfCode(Grid(scheme, use), row, col), size);
  }

  Device device;
  int64_t rows;
  DeviceBytes x, back, words;
  std::vector<DeviceBytes> codes, scales, lines, inverses;
};

void ExpectSameRows(const Scheme& scheme, Side& gpu, Side& host) {
  const int64_t row_bytes = CodeRowBytes(scheme.spec.format, kCols);
  EXPECT_TRUE(
      gpu.Read(gpu.codes[0], (kRows - kTail) * row_bytes, kTail * row_bytes) ==
      host.Read(host.codes[0], 0, kTail * row_bytes))
      << "codes of the last rows";
  for (const int64_t row : {int64_t{0}, kTail / 2, kTail - 1}) {
    for (const int64_t col : {int64_t{0}, kCols / 2, kCols - 1}) {
      EXPECT_EQ(gpu.ScaleAt(scheme, 0, kRows - kTail + row, col),
                host.ScaleAt(scheme, 0, row, col))
          << row << ", " << col;
    }
  }
}

void ExpectSameColumns(const Scheme& scheme, Side& gpu, Side& host) {
  const int64_t line = CodeRowBytes(scheme.spec.format, kRows);
  const int64_t tail = CodeRowBytes(scheme.spec.format, kTail);
  for (const int64_t col : {int64_t{0}, kCols / 2 - 1, kCols - 1}) {
    EXPECT_EQ(gpu.Read(gpu.codes[1], (col + 1) * line - tail, tail),
              host.Read(host.codes[1], col * tail, tail))
        << "codes of column " << col;
    for (const int64_t row : {int64_t{0}, kTail / 2, kTail - 1}) {
      EXPECT_EQ(gpu.ScaleAt(scheme, 1, col, kRows - kTail + row),
                host.ScaleAt(scheme, 1, col, row))
          << col << ", " << row;
    }
  }
}

std::vector<Scheme> Schemes() {
  std::vector<Scheme> schemes = PlainSchemes(Format::kE4M3);
  for (Scheme& s : AllSchemes()) {
    if (s.hadamard && !s.spec.stochastic_rounding) schemes.push_back(s);
  }
  return schemes;
}

TEST_F(BlockKernelsCudaTest, MoreElementsThanAnInt32Counts) {
  Side gpu(kGpu, kRows);
  Side host(Device::Host(), kTail);
  const TestTensor tail = FillTensor(Fill::kPlain, DType::kBF16, kTail, kCols);
  const int64_t first = (kRows - kTail) * kCols * 2;
  // bfloat16 0x3A3A, 0.0007, less than every column's amax at the end.
  ASSERT_THAT(FillBytes(kGpu, gpu.x.as<uint8_t>(), 0x3A,
                        static_cast<size_t>(first), Stream()),
              IsOk());
  ASSERT_THAT(CopyFromHost(kGpu, gpu.x.as<uint8_t>() + first,
                           tail.bytes().data(), tail.bytes().size(), Stream()),
              IsOk());
  host.x.Upload(tail.bytes().data(), tail.bytes().size());
  for (const Scheme& scheme : Schemes()) {
    SCOPED_TRACE(scheme.name);
    gpu.Measure(scheme);
    host.Measure(scheme);
    for (int use = 0; use < 2; ++use) {
      EXPECT_EQ(gpu.words.Get<Words>().tensor_amax[use],
                host.words.Get<Words>().tensor_amax[use]);
    }
    gpu.Cast(scheme, /*of_transpose=*/false);
    host.Cast(scheme, /*of_transpose=*/false);
    EXPECT_EQ(gpu.words.Get<Words>().amax, host.words.Get<Words>().amax);
    ExpectSameRows(scheme, gpu, host);
    ExpectSameColumns(scheme, gpu, host);
    gpu.Decode(scheme);
    host.Decode(scheme);
    EXPECT_TRUE(gpu.Read(gpu.back, first, kTail * kCols * 2) ==
                host.Read(host.back, 0, kTail * kCols * 2))
        << "decoded";
    gpu.Cast(scheme, /*of_transpose=*/true);
    ExpectSameColumns(scheme, gpu, host);
  }
}

}  // namespace
}  // namespace scalekeeper
