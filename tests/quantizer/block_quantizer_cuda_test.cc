// Rowwise, block, MXFP8 and NVFP4 quantizers on a GPU against the host's, bit
// for bit.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/cuda/handles_cuda.h"
#include "base/device_memory.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "numerics/bits.h"
#include "quantizer/block_quantizer.h"
#include "tests/quantizer/block_testing.h"
#include "tests/testing/device_tensor.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/test_tensor.h"

namespace scalekeeper {
namespace {

const Device kGpu = Device::Cuda(0);
constexpr Usages kBoth = {true, true};

// D13: fails the test when a kernel wrote before or behind a buffer.
class GuardedGpu : public Allocator {
 public:
  absl::StatusOr<void*> Allocate(size_t bytes) override {
    SK_ASSIGN_OR_RETURN(Allocator * allocator, DefaultAllocator(kGpu));
    SK_ASSIGN_OR_RETURN(void* block,
                        allocator->Allocate(bytes + 2 * kAlignment));
    SK_RETURN_IF_ERROR(
        FillBytes(kGpu, block, kGuard, bytes + 2 * kAlignment, Stream()));
    SK_RETURN_IF_ERROR(Synchronize(kGpu, Stream()));
    return static_cast<uint8_t*>(block) + kAlignment;
  }
  void Deallocate(void* data, size_t bytes) override {
    uint8_t* first = static_cast<uint8_t*>(data) - kAlignment;
    std::vector<uint8_t> all(bytes + 2 * kAlignment);
    EXPECT_THAT(CopyToHost(kGpu, all.data(), first, all.size(), Stream()),
                IsOk());
    for (size_t i = 0; i < kAlignment; ++i) {
      EXPECT_EQ(all[i], kGuard) << "before a buffer of " << bytes;
      EXPECT_EQ(all[kAlignment + bytes + i], kGuard)
          << "behind a buffer of " << bytes;
    }
    const absl::StatusOr<Allocator*> allocator = DefaultAllocator(kGpu);
    ASSERT_THAT(allocator.status(), IsOk());
    (*allocator)->Deallocate(first, bytes + 2 * kAlignment);
  }
  Device device() const override { return kGpu; }

 private:
  static constexpr uint8_t kGuard = 0xA5;
};

// Device words that a RecipeState would lend to a quantizer.
struct Words {
  uint32_t amax = 0;
  uint32_t noop = 0;
  int64_t step = 5;
  kernels::CastCounters counters;
};

// What a Quantize left behind, in an order that no layout changes.
struct Outcome {
  std::vector<uint8_t> codes[2];
  std::vector<uint32_t> scales[2];
  uint32_t tensor_scale_inv[2] = {0, 0};
  uint32_t amax = 0;
  std::vector<uint64_t> counters;
  std::vector<uint32_t> back;  // float32 bits
};

void ExpectSame(const Outcome& gpu, const Outcome& host) {
  for (int use = 0; use < 2; ++use) {
    ASSERT_EQ(gpu.codes[use].size(), host.codes[use].size());
    size_t wrong = 0;
    size_t first = 0;
    for (size_t i = 0; i < host.codes[use].size(); ++i) {
      if (gpu.codes[use][i] == host.codes[use][i]) continue;
      if (wrong++ == 0) first = i;
    }
    EXPECT_EQ(wrong, 0u) << "codes of use " << use << ", first at " << first
                         << ": " << int{gpu.codes[use][first]} << ", want "
                         << int{host.codes[use][first]};
    EXPECT_EQ(gpu.scales[use], host.scales[use]) << "scales of use " << use;
    EXPECT_EQ(gpu.tensor_scale_inv[use], host.tensor_scale_inv[use]);
  }
  EXPECT_EQ(gpu.amax, host.amax);
  EXPECT_EQ(gpu.counters, host.counters);
  EXPECT_TRUE(gpu.back == host.back) << "dequantized values";
}

struct Case {
  Policy policy;
  Usages usages = kBoth;
  DType dtype = DType::kBF16;
  int64_t rows = 0, cols = 0;
  Layout layout = Layout::kContiguous;
  Fill fill = Fill::kWild;
  bool count = false;
  size_t offset = 0;
};

std::string NameOf(const Case& c) {
  return absl::StrCat(Describe(c.policy), " of ", Name(c.dtype), " ", c.rows,
                      "x", c.cols, " layout ", static_cast<int>(c.layout),
                      c.usages.row_wise ? " row" : "",
                      c.usages.column_wise ? " column" : "",
                      c.count ? " counted" : "", " at ", c.offset);
}

std::vector<uint8_t> Read(Device device, const Buffer& buffer) {
  std::vector<uint8_t> bytes(buffer.size());
  EXPECT_THAT(
      CopyToHost(device, bytes.data(), buffer.data(), bytes.size(), Stream()),
      IsOk());
  return bytes;
}

Outcome OutcomeOf(const Case& c, Device device, Allocator* allocator,
                  uint32_t noop = 0) {
  Outcome outcome;
  const Words zero = [&] {
    Words w;
    w.noop = noop;
    return w;
  }();
  std::vector<uint8_t> word_bytes(sizeof(Words));
  std::memcpy(word_bytes.data(), &zero, sizeof(Words));
  Buffer words = *Upload(device, word_bytes);
  Words* w = words.as<Words>();
  BlockQuantizer quantizer("m/grad", c.policy, SlotView{&w->amax}, &w->step,
                           /*group=*/nullptr, device, c.usages, allocator);
  if (c.count) quantizer.set_counters(&w->counters);
  DeviceTensor x = *DeviceTensor::Of(
      device, FillTensor(c.fill, c.dtype, c.rows, c.cols, c.layout), c.offset);
  absl::StatusOr<QuantizedTensor> q = quantizer.MakeEmpty(c.rows, c.cols);
  EXPECT_THAT(q.status(), IsOk());
  // Bytes that nobody writes are the same on both sides.
  for (auto* data : {&q->row_wise, &q->column_wise}) {
    if (!*data) continue;
    EXPECT_THAT(FillBytes(device, (*data)->codes.data(), 0x11,
                          (*data)->codes.size(), Stream()),
                IsOk());
  }
  EXPECT_THAT(quantizer.QuantizeInto(x.view(), &*q, &w->noop, Stream()),
              IsOk());
  for (int use = 0; use < 2; ++use) {
    const auto& data = use == 0 ? q->row_wise : q->column_wise;
    if (!data) continue;
    outcome.codes[use] = Read(device, data->codes);
    const std::vector<uint8_t> stored = Read(device, data->scale_inv);
    const BlockScales& scales = data->scales;
    for (int64_t i = 0; i < scales.rows; ++i) {
      for (int64_t j = 0; j < scales.cols; ++j) {
        const size_t at = static_cast<size_t>(ScaleOffset(scales, i, j));
        uint32_t value = 0;
        if (scales.type == ScaleType::kFloat) {
          std::memcpy(&value, stored.data() + at * 4, 4);
        } else {
          value = stored[at];
        }
        outcome.scales[use].push_back(value);
      }
    }
    if (data->tensor_scale_inv.size() != 0) {
      std::memcpy(&outcome.tensor_scale_inv[use],
                  Read(device, data->tensor_scale_inv).data(), 4);
    }
  }
  DeviceTensor back =
      *DeviceTensor::Of(device, TestTensor(DType::kBF16, c.rows, c.cols));
  EXPECT_THAT(quantizer.Dequantize(*q, back.view(), Stream()), IsOk());
  // A NaN's sign and payload are each backend's own.
  const TestTensor values = *back.Download(Stream());
  for (int64_t r = 0; r < c.rows; ++r) {
    for (int64_t col = 0; col < c.cols; ++col) {
      const uint32_t bits = BitsFromFloat(values.at(r, col));
      outcome.back.push_back(
          (bits & kFloatMagnitudeMask) > kFloatInfBits ? 0x7FC00000u : bits);
    }
  }
  Words after;
  std::memcpy(static_cast<void*>(&after), Read(device, words).data(),
              sizeof(after));
  outcome.amax = after.amax;
  outcome.counters = {after.counters.nonzero, after.counters.underflow,
                      after.counters.saturation, after.counters.non_finite};
  return outcome;
}

void Compare(const Case& c) {
  SCOPED_TRACE(NameOf(c));
  GuardAllocator host;
  GuardedGpu gpu;
  ExpectSame(OutcomeOf(c, kGpu, &gpu), OutcomeOf(c, Device::Host(), &host));
}

std::vector<Policy> Policies() {
  std::vector<Policy> policies;
  for (Format format : {Format::kE4M3, Format::kE5M2}) {
    Policy p = BlockPolicy(Scaling::kRowwise, format);
    policies.push_back(p);
    p.current.power_2_scale = true;
    p.current.amax_epsilon = 1e-3f;
    policies.push_back(p);
    p = BlockPolicy(Scaling::kBlock, format);
    policies.push_back(p);
    p.block.power_2_scale = true;
    policies.push_back(p);
    p.block.block_shape = BlockShape::k128x128;
    policies.push_back(p);
    p = BlockPolicy(Scaling::kMxfp8, format);
    policies.push_back(p);
    p.mxfp8.two_dimensional = true;
    policies.push_back(p);
    p.mxfp8.scale_rounding = ScaleRounding::kOcpFloor;
    policies.push_back(p);
  }
  Policy p = BlockPolicy(Scaling::kNvfp4, Format::kE2M1);
  policies.push_back(p);
  p.nvfp4.two_dimensional = true;
  policies.push_back(p);
  p.nvfp4.four_over_six = true;
  policies.push_back(p);
  p.nvfp4.two_dimensional = false;
  policies.push_back(p);
  p.nvfp4 = Nvfp4Options();
  p.nvfp4.stochastic_rounding = true;
  p.nvfp4.seed = 77;
  policies.push_back(p);
  return policies;
}

class BlockQuantizerCudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count < 1) {
      GTEST_SKIP() << "needs a GPU";
    }
  }
};

constexpr std::pair<int64_t, int64_t> kShapes[] = {
    {1, 1},     {1, 15},    {17, 33}, {127, 129}, {128, 128}, {144, 272},
    {300, 100}, {256, 512}, {0, 256}, {16, 16},   {257, 128}};

TEST_F(BlockQuantizerCudaTest, EveryPolicyAndShapeAsOnTheHost) {
  for (const Policy& policy : Policies()) {
    for (const auto& [rows, cols] : kShapes) {
      Compare({policy, kBoth, DType::kBF16, rows, cols});
    }
  }
}

TEST_F(BlockQuantizerCudaTest, EveryDTypeLayoutAndUse) {
  for (const Policy& policy : Policies()) {
    for (DType dtype : kHighPrecisionDTypes) {
      Compare({policy, kBoth, dtype, 160, 208});
      Compare({policy, {true, false}, dtype, 160, 208});
      Compare({policy, {false, true}, dtype, 160, 208});
      Compare(
          {policy, kBoth, dtype, 160, 208, Layout::kContiguous, Fill::kWide});
    }
    for (Layout layout : kLayouts) {
      Compare({policy, kBoth, DType::kBF16, 96, 80, layout});
    }
    Compare({policy, kBoth, DType::kBF16, 96, 80, Layout::kContiguous,
             Fill::kWild, /*count=*/true});
    Compare({policy, kBoth, DType::kBF16, 96, 80, Layout::kContiguous,
             Fill::kWild, /*count=*/false, /*offset=*/2});
  }
}

// Every lane of a kernel sees every edge value: the tensors are wild.
TEST_F(BlockQuantizerCudaTest, LargeTensors) {
  for (const Policy& policy : Policies()) {
    if (policy.nvfp4.four_over_six && policy.nvfp4.two_dimensional) continue;
    Compare({policy, kBoth, DType::kBF16, 1024, 2048});
  }
  // More than one strip of rows.
  for (DType dtype : kHighPrecisionDTypes) {
    Compare({BlockPolicy(Scaling::kRowwise, Format::kE4M3), kBoth, dtype, 1168,
             272});
  }
  for (int64_t cols : {4096, 16384, 32768, 40960}) {
    Compare({BlockPolicy(Scaling::kRowwise, Format::kE4M3),
             {true, false},
             DType::kBF16,
             48,
             cols});
  }
}

TEST_F(BlockQuantizerCudaTest, HadamardTransformOfColumnWiseCopies) {
  Policy policy = BlockPolicy(Scaling::kNvfp4, Format::kE2M1);
  policy.nvfp4.random_hadamard = true;
  for (bool stochastic : {false, true}) {
    policy.nvfp4.stochastic_rounding = stochastic;
    for (DType dtype : kHighPrecisionDTypes) {
      for (Usages usages : {kBoth, Usages{false, true}}) {
        Compare({policy, usages, dtype, 16, 1});
        Compare({policy, usages, dtype, 160, 208});
        Compare({policy, usages, dtype, 48, 33, Layout::kTransposed});
        Compare(
            {policy, usages, dtype, 160, 208, Layout::kPadded, Fill::kPlain});
      }
    }
  }
}

TEST_F(BlockQuantizerCudaTest, NoopFlagLeavesEverything) {
  for (const Policy& policy : Policies()) {
    SCOPED_TRACE(Describe(policy));
    GuardedGpu gpu;
    Case c = {policy, kBoth, DType::kBF16, 128, 256};
    c.count = true;
    const Outcome outcome = OutcomeOf(c, kGpu, &gpu, /*noop=*/1);
    for (const auto& codes : outcome.codes) {
      for (uint8_t code : codes) ASSERT_EQ(code, 0x11);
    }
    EXPECT_EQ(outcome.amax, 0u);
    EXPECT_EQ(outcome.counters, std::vector<uint64_t>(4, 0));
  }
}

// 2^31 elements and some: the last row differs from the others.
TEST_F(BlockQuantizerCudaTest, MoreElementsThanAnInt32Counts) {
  constexpr int64_t kCols = 4096;
  constexpr int64_t kRows = (int64_t{1} << 31) / kCols + 1;
  Allocator* allocator = *DefaultAllocator(kGpu);
  Buffer x = *Buffer::Allocate(allocator, size_t{kRows * kCols} * 2);
  // bfloat16 0x3E3E, and 0x4040 = 3 in the last row.
  ASSERT_THAT(FillBytes(kGpu, x.data(), 0x3E, x.size(), Stream()), IsOk());
  ASSERT_THAT(FillBytes(kGpu, x.as<uint16_t>() + (kRows - 1) * kCols, 0x40,
                        size_t{kCols} * 2, Stream()),
              IsOk());
  const auto view =
      ConstTensorView::Contiguous(x.data(), DType::kBF16, kRows, kCols, kGpu);
  for (Scaling scaling : {Scaling::kBlock, Scaling::kRowwise}) {
    BlockQuantizer quantizer("m/input", BlockPolicy(scaling, Format::kE4M3),
                             SlotView(), nullptr, nullptr, kGpu, {true, false},
                             allocator);
    quantizer.set_observing(false);
    absl::StatusOr<QuantizedTensor> q = quantizer.Quantize(view, Stream());
    ASSERT_THAT(q.status(), IsOk());
    uint8_t last = 0;
    ASSERT_THAT(CopyToHost(kGpu, &last,
                           q->row_wise->codes.as<uint8_t>() + kRows * kCols - 1,
                           1, Stream()),
                IsOk());
    EXPECT_EQ(last, 0x7E);  // the block's maximum is the format's
    float scale_inv = 0;
    const BlockScales& s = q->row_wise->scales;
    ASSERT_THAT(CopyToHost(kGpu, &scale_inv,
                           static_cast<float*>(s.data) +
                               ScaleOffset(s, kRows - 1, s.cols - 1),
                           sizeof(float), Stream()),
                IsOk());
    EXPECT_EQ(BitsFromFloat(scale_inv),
              BitsFromFloat(1.0f / (448.0f / FloatFromBF16(0x4040))));
  }
}

}  // namespace
}  // namespace scalekeeper
