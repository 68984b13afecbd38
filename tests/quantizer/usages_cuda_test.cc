// Transposes, gathered tensors, shared amaxes and grouped casts on GPUs against
// the same on the host.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "amax/amax_group.h"
#include "base/cuda/device_guard_cuda.h"
#include "base/cuda/handles_cuda.h"
#include "base/device_memory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "numerics/bits.h"
#include "quantizer/all_gather.h"
#include "quantizer/grouped_quantizer.h"
#include "quantizer/layout_kernels.h"
#include "quantizer/quantize_many.h"
#include "quantizer/quantizer.h"
#include "tests/amax/cuda_state_testing.h"
#include "tests/amax/nccl_testing.h"
#include "tests/quantizer/quantizer_testing.h"
#include "tests/testing/device_bytes.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/test_tensor.h"

namespace scalekeeper {
namespace {

const Device kGpu = Device::Cuda(0);
constexpr Usages kRowWise = {/*row_wise=*/true};

class UsagesCudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    EndProcessAfter(180);  // per test
    if (GpuCount() < 1) GTEST_SKIP() << "needs a GPU";
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  }
};

std::vector<uint8_t> Read(Device device, const Buffer& buffer) {
  std::vector<uint8_t> bytes(buffer.size());
  EXPECT_THAT(
      CopyToHost(device, bytes.data(), buffer.data(), bytes.size(), Stream()),
      IsOk());
  return bytes;
}

// Any bytes, the same every time.
std::vector<uint8_t> Noise(size_t size) {
  std::vector<uint8_t> bytes(size);
  uint32_t word = 12345;
  for (uint8_t& byte : bytes) {
    word = word * 1664525u + 1013904223u;
    byte = static_cast<uint8_t>(word >> 24);
  }
  return bytes;
}

TEST_F(UsagesCudaTest, TransposesAreThoseOfTheHost) {
  const int64_t shapes[][2] = {{1, 1},   {1, 40},     {33, 1},    {31, 33},
                               {64, 64}, {129, 1000}, {2048, 96}, {0, 5}};
  for (const auto& [rows, cols] : shapes) {
    for (const int bits : {4, 8, 16, 32}) {
      const auto bytes = [bits](int64_t r, int64_t c) {
        return static_cast<size_t>(r * ((c * bits + 7) / 8));
      };
      std::vector<uint8_t> codes = Noise(bytes(rows, cols));
      if (bits == 4 && cols % 2 == 1) {
        const size_t row = bytes(1, cols);
        for (size_t at = row; at <= codes.size(); at += row) {
          codes[at - 1] &= 0xF;
        }
      }
      std::vector<uint8_t> want(bytes(cols, rows), 0xEE);
      ASSERT_THAT(kernels::TransposeCodes(codes.data(), rows, cols, bits,
                                          want.data(), Device::Host(), {}),
                  IsOk());
      DeviceBytes from(kGpu, codes);
      DeviceBytes to(kGpu, std::vector<uint8_t>(want.size(), 0xEE));
      ASSERT_THAT(kernels::TransposeCodes(from.as<void>(), rows, cols, bits,
                                          to.as<void>(), kGpu, {}),
                  IsOk());
      EXPECT_EQ(to.Download(), want) << rows << "x" << cols << " " << bits;
    }
  }
}

TEST_F(UsagesCudaTest, TransposedScalesAreThoseOfTheHost) {
  // Square blocks of 32 over 300 x 130 codes, strided and in tiles; float
  // scales with padded rows.
  for (const ScaleLayout layout :
       {ScaleLayout::kStrided, ScaleLayout::kTiled}) {
    for (const ScaleType type : {ScaleType::kE8M0, ScaleType::kFloat}) {
      if (layout == ScaleLayout::kTiled && type == ScaleType::kFloat) continue;
      const auto grid = [&](int64_t code_rows, int64_t code_cols) {
        BlockScales scales;
        scales.type = type;
        scales.layout = layout;
        scales.block_rows = scales.block_cols = 32;
        scales.rows = (code_rows + 31) / 32;
        scales.cols = (code_cols + 31) / 32;
        scales.row_stride = (scales.cols + 3) / 4 * 4;
        return scales;
      };
      constexpr size_t kBytes = 1 << 14;
      BlockScales from = grid(300, 130), to = grid(130, 300);
      std::vector<uint8_t> source = Noise(kBytes), want(kBytes, 0);
      DeviceBytes device_from(kGpu, source), device_to(kGpu, want);
      from.data = source.data();
      to.data = want.data();
      ASSERT_THAT(kernels::TransposeScales(from, to, 130, Device::Host(), {}),
                  IsOk());
      from.data = device_from.as<void>();
      to.data = device_to.as<void>();
      ASSERT_THAT(kernels::TransposeScales(from, to, 130, kGpu, {}), IsOk());
      EXPECT_EQ(device_to.Download(), want);
    }
  }
}

TEST_F(UsagesCudaTest, UpdateUsageGivesTheBitsOfQuantizingAnew) {
  for (const std::string policy :
       {"format: E4M3 delayed {}", "format: E4M3 current {}",
        "high_precision {}", "format: E4M3 block { block_shape: B128X128 }",
        "format: E4M3 mxfp8 { two_dimensional: true }",
        "nvfp4 { two_dimensional: true }"}) {
    const std::string recipe = "defaults { all { " + policy + " } }";
    TestTensor x = TestTensor::Of(DType::kBF16, 300, 130, Wave);
    DeviceBytes device_x(kGpu, x.bytes());
    const TensorView view = OnDevice(x.view(), kGpu, device_x.as<void>());
    Rig rig(recipe, kBoth, kGpu);
    const QuantizedTensor want =
        ValueOrDie(rig.quantizer->Quantize(view, kStream));
    rig.quantizer->set_usages(kRowWise);
    QuantizedTensor q = ValueOrDie(rig.quantizer->Quantize(view, kStream));
    ASSERT_THAT(q.UpdateUsage(kBoth, kStream), IsOk());
    EXPECT_EQ(Read(kGpu, q.column_wise->codes),
              Read(kGpu, want.column_wise->codes));
    EXPECT_EQ(Read(kGpu, q.column_wise->scale_inv),
              Read(kGpu, want.column_wise->scale_inv));
    EXPECT_EQ(Read(kGpu, q.column_wise->tensor_scale_inv),
              Read(kGpu, want.column_wise->tensor_scale_inv));
  }
}

TEST_F(UsagesCudaTest, InterleavedRanksAreThoseOfTheHost) {
  for (const int64_t length : {int64_t{16}, int64_t{128}, int64_t{7}}) {
    for (const bool agree : {true, false}) {
      constexpr int kRanks = 3;
      constexpr int64_t kLines = 37;
      const auto size = static_cast<size_t>(kRanks * kLines * length);
      const std::vector<uint8_t> codes = Noise(size);
      float scales[kRanks] = {0.5f, 0.5f, agree ? 0.5f : 0.25f};
      kernels::GatheredBlocks blocks;
      blocks.ranks = kRanks;
      blocks.lines = kLines;
      blocks.length = length;
      blocks.codes = codes.data();
      blocks.scale_inv = scales;
      std::vector<uint8_t> want(size);
      float want_scale = 0;
      ASSERT_THAT(kernels::Interleave(blocks, want.data(), &want_scale,
                                      Device::Host(), {}),
                  IsOk());
      DeviceBytes device_codes(kGpu, codes), out(kGpu, size);
      DeviceBytes device_scales(kGpu, sizeof(scales));
      device_scales.Upload(scales, sizeof(scales));
      DeviceBytes scale(kGpu, sizeof(float));
      blocks.codes = device_codes.as<uint8_t>();
      blocks.scale_inv = device_scales.as<float>();
      ASSERT_THAT(kernels::Interleave(blocks, out.as<uint8_t>(),
                                      scale.as<float>(), kGpu, {}),
                  IsOk());
      EXPECT_EQ(out.Download(), want);
      EXPECT_EQ(scale.Get<uint32_t>(), BitsFromFloat(want_scale))
          << "NaN where the ranks differ";
    }
  }
}

// ---------------------------------------------------------------- experts

struct Grouped {
  Grouped(const std::string& recipe, int count, Device device)
      : state(MakeState(recipe, OptionsOf(device))) {
    for (const ModuleSlots& module :
         ValueOrDie(state->AddModules("experts", count))) {
      slots.push_back(module.input);
    }
    EXPECT_THAT(state->Freeze(), IsOk());
    quantizer = ValueOrDie(GroupedQuantizer::Create(state.get(), slots, kBoth));
  }
  std::vector<uint32_t> Amaxes() {
    std::vector<uint32_t> amaxes;
    for (const SlotId slot : slots) {
      amaxes.push_back(
          ReadDevice(state->device(), state->View(slot).amax, kStream));
    }
    return amaxes;
  }

  std::unique_ptr<RecipeState> state;
  std::vector<SlotId> slots;
  std::unique_ptr<GroupedQuantizer> quantizer;
};

TEST_F(UsagesCudaTest, GroupedCastsGiveTheHostsBits) {
  const std::vector<std::vector<int64_t>> splits = {
      {5, 0, 3}, {0, 0, 0}, {0, 200, 0, 0, 65, 1, 0}, {64, 64, 128}};
  for (const std::string& recipe :
       {DelayedRecipe("margin: 1"), UnitRecipe(), CurrentRecipe()}) {
    for (const DType dtype : kHighPrecisionDTypes) {
      for (const Layout layout : kLayouts) {
        for (const std::vector<int64_t>& counts : splits) {
          const int experts = static_cast<int>(counts.size());
          int64_t rows = 3;  // of padding
          for (const int64_t n : counts) rows += n;
          TestTensor x = TestTensor::Of(dtype, rows, 75, Wave, layout);
          Grouped host(recipe, experts, Device::Host());
          Grouped gpu(recipe, experts, kGpu);
          DeviceBytes device_x(kGpu, x.bytes());
          DeviceBytes device_counts(kGpu, counts.size() * sizeof(int64_t));
          device_counts.Upload(counts.data(), counts.size() * sizeof(int64_t));
          GroupedTensor want =
              ValueOrDie(host.quantizer->MakeEmpty(rows, 75, kStream));
          GroupedTensor got =
              ValueOrDie(gpu.quantizer->MakeEmpty(rows, 75, kStream));
          for (GroupedTensor* q : {&want, &got}) {
            for (Buffer* codes : {&q->row_wise, &q->column_wise}) {
              ASSERT_THAT(FillBytes(q->device, codes->data(), 0xEE,
                                    codes->size(), kStream),
                          IsOk());
            }
          }
          for (int step = 0; step < 2; ++step) {
            ASSERT_THAT(host.quantizer->QuantizeInto(x.view(), counts.data(),
                                                     &want, kStream),
                        IsOk());
            ASSERT_THAT(gpu.quantizer->QuantizeInto(
                            OnDevice(x.view(), kGpu, device_x.as<void>()),
                            device_counts.as<int64_t>(), &got, kStream),
                        IsOk());
            EXPECT_EQ(Read(kGpu, got.row_wise),
                      Read(Device::Host(), want.row_wise));
            EXPECT_EQ(Read(kGpu, got.column_wise),
                      Read(Device::Host(), want.column_wise));
            EXPECT_EQ(Read(kGpu, got.scale_inv),
                      Read(Device::Host(), want.scale_inv));
            EXPECT_EQ(gpu.Amaxes(), host.Amaxes());
            TestTensor back(DType::kF32, rows, 75);
            DeviceBytes device_back(kGpu, back.bytes());
            ASSERT_THAT(host.quantizer->Dequantize(want, back.view(), kStream),
                        IsOk());
            ASSERT_THAT(
                gpu.quantizer->Dequantize(
                    got, OnDevice(back.view(), kGpu, device_back.as<void>()),
                    kStream),
                IsOk());
            EXPECT_EQ(device_back.Download(), back.bytes());
            ASSERT_THAT(host.state->EndStep(kStream), IsOk());
            ASSERT_THAT(gpu.state->EndStep(kStream), IsOk());
          }
        }
      }
    }
  }
}

// The host decides nothing: a graph follows counts that change on the device.
TEST_F(UsagesCudaTest, AGraphFollowsTheCounts) {
  Grouped host(CurrentRecipe(), 2, Device::Host());
  Grouped gpu(CurrentRecipe(), 2, kGpu);
  TestTensor x = TestTensor::Of(DType::kBF16, 64, 32, Wave);
  DeviceBytes device_x(kGpu, x.bytes());
  DeviceBytes counts(kGpu, 2 * sizeof(int64_t));
  const TensorView view = OnDevice(x.view(), kGpu, device_x.as<void>());
  GroupedTensor want = ValueOrDie(host.quantizer->MakeEmpty(64, 32, kStream));
  GroupedTensor got = ValueOrDie(gpu.quantizer->MakeEmpty(64, 32, kStream));
  const CudaStream stream = ValueOrDie(CreateCudaStream());
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const CudaGraphExec graph = Capture(stream, [&] {
    ASSERT_THAT(gpu.quantizer->QuantizeInto(view, counts.as<int64_t>(), &got,
                                            AsStream(stream)),
                IsOk());
  });
  for (const std::vector<int64_t>& split :
       {std::vector<int64_t>{64, 0}, {1, 63}, {32, 32}}) {
    counts.Upload(split.data(), 2 * sizeof(int64_t));
    ASSERT_EQ(cudaGraphLaunch(graph.get(), stream.get()), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
    ASSERT_THAT(
        host.quantizer->QuantizeInto(x.view(), split.data(), &want, kStream),
        IsOk());
    EXPECT_EQ(Read(kGpu, got.row_wise), Read(Device::Host(), want.row_wise));
    EXPECT_EQ(Read(kGpu, got.column_wise),
              Read(Device::Host(), want.column_wise));
  }
}

// What a GPU cannot refuse stays inside the tensor.
TEST_F(UsagesCudaTest, CountsThatDoNotFitAreCut) {
  Grouped gpu(CurrentRecipe(), 3, kGpu);
  TestTensor x = TestTensor::Of(DType::kBF16, 8, 16, Wave);
  DeviceBytes device_x(kGpu, x.bytes());
  const int64_t split[] = {5, -2, 1000};
  DeviceBytes counts(kGpu, sizeof(split));
  counts.Upload(split, sizeof(split));
  GroupedTensor q = ValueOrDie(gpu.quantizer->MakeEmpty(8, 16, kStream));
  ASSERT_THAT(
      gpu.quantizer->QuantizeInto(OnDevice(x.view(), kGpu, device_x.as<void>()),
                                  counts.as<int64_t>(), &q, kStream),
      IsOk());
  int64_t offsets[4] = {};
  ASSERT_THAT(
      CopyToHost(kGpu, offsets, q.offsets.data(), sizeof(offsets), kStream),
      IsOk());
  EXPECT_THAT(offsets, ::testing::ElementsAre(0, 5, 5, 8));
}

TEST_F(UsagesCudaTest, MemoryOfTheHostIsRefusedByName) {
  Grouped gpu(CurrentRecipe(), 2, kGpu);
  TestTensor x = TestTensor::Of(DType::kBF16, 8, 16, Wave);
  DeviceBytes device_x(kGpu, x.bytes());
  const TensorView view = OnDevice(x.view(), kGpu, device_x.as<void>());
  TensorView liar = x.view();
  liar.device = kGpu;
  const int64_t split[] = {5, 3};
  DeviceBytes counts(kGpu, sizeof(split));
  counts.Upload(split, sizeof(split));
  GroupedTensor q = ValueOrDie(gpu.quantizer->MakeEmpty(8, 16, kStream));
  const auto refused = [](const char* what) {
    return StatusIs(absl::StatusCode::kInvalidArgument,
                    ::testing::HasSubstr(absl::StrCat(
                        what,
                        " is said to be on cuda:0, but its memory is "
                        "the host's")));
  };
  EXPECT_THAT(
      gpu.quantizer->QuantizeInto(liar, counts.as<int64_t>(), &q, kStream),
      refused("x"));
  EXPECT_THAT(gpu.quantizer->QuantizeInto(view, split, &q, kStream),
              refused("counts"));
  EXPECT_THAT(
      gpu.quantizer->QuantizeInto(view, counts.as<int64_t>(), &q, kStream),
      IsOk());
}

// ------------------------------------------------------------------- ranks

class UsagesNcclTest : public TwoGpuTest {
 protected:
  // Runs on both ranks, each with its GPU, communicator and stream.
  void OnBoth(
      const std::function<void(int rank, Communicator*, Stream)>& body) {
    auto group = MakeNcclGroup(2, absl::Seconds(30));
    RunRanks(2, [&](int rank) {
      ASSERT_EQ(cudaSetDevice(rank), cudaSuccess);
      const CudaStream stream = ValueOrDie(CreateCudaStream());
      body(rank, group[static_cast<size_t>(rank)].get(), AsStream(stream));
      ASSERT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
    });
    RunRanks(2, [&](int rank) { group[static_cast<size_t>(rank)].reset(); });
  }
};

TEST_F(UsagesNcclTest, AmaxesOfAGroupAreThoseOfAllRanks) {  // E6, G3
  OnBoth([](int rank, Communicator* communicator, Stream stream) {
    const Device device = Device::Cuda(rank);
    RecipeStateOptions options;
    options.device = device;
    options.groups["tp"] = communicator;
    options.groups["default"] = communicator;
    OneModule module =
        FrozenModule(CurrentRecipe("amax_group: \"tp\""), options);
    auto input = ValueOrDie(
        MakeQuantizer(module.state.get(), module.slots.input, kRowWise));
    auto weight = ValueOrDie(
        MakeQuantizer(module.state.get(), module.slots.weight, kRowWise));
    TestTensor x = TestTensor::Row(DType::kF32, {rank == 0 ? 2.0f : 8.0f});
    DeviceBytes device_x(device, x.bytes());
    const TensorView view = OnDevice(x.view(), device, device_x.as<void>());
    // Rank 1 has no weight.
    const TensorView nothing =
        TensorView::Contiguous(nullptr, DType::kF32, 0, 1, device);
    QuantizedTensor x8 = ValueOrDie(input->MakeEmpty(1, 1, stream));
    QuantizedTensor w8 =
        ValueOrDie(weight->MakeEmpty(rank == 0 ? 1 : 0, 1, stream));
    const QuantizeItem items[] = {
        {input.get(), view, &x8},
        {weight.get(), rank == 0 ? view : nothing, &w8}};
    for (int step = 0; step < 3; ++step) {
      ASSERT_THAT(QuantizeMany(items, stream), IsOk());
    }
    EXPECT_EQ(ReadDevice(device, x8.row_wise->scale_inv.as<float>(), stream),
              1.0f / 56.0f);
    EXPECT_EQ(ReadDevice(device, w8.row_wise->scale_inv.as<float>(), stream),
              1.0f / 224.0f);
  });
}

// Rank 1 has other columns of the same rows (then none), and other usages.
TEST_F(UsagesNcclTest, SharedAmaxesDependOnNoUsageAndNoColumn) {
  OnBoth([](int rank, Communicator* communicator, Stream stream) {
    const Device device = Device::Cuda(rank);
    RecipeStateOptions options;
    options.device = device;
    options.groups["tp"] = communicator;
    OneModule module = FrozenModule(
        "defaults { all { rowwise { amax_group: \"tp\" } } "
        "weight { nvfp4 { amax_group: \"tp\" } } }",
        options);
    for (const int64_t theirs : {48, 0}) {
      const int64_t cols = rank == 0 ? 16 : theirs;
      TestTensor x = TestTensor::Of(
          DType::kBF16, 32, cols,
          [&](int64_t, int64_t) { return rank == 0 ? 3.5f : 7.0f; });
      DeviceBytes device_x(device, x.bytes());
      const TensorView view = OnDevice(x.view(), device, device_x.as<void>());
      auto rows = ValueOrDie(MakeQuantizer(
          module.state.get(), module.slots.input, {true, rank == 0}));
      auto tensor = ValueOrDie(MakeQuantizer(
          module.state.get(), module.slots.weight, {rank == 0, rank == 1}));
      QuantizedTensor x8 = ValueOrDie(rows->MakeEmpty(32, cols, stream));
      QuantizedTensor x4 = ValueOrDie(tensor->MakeEmpty(32, cols, stream));
      const QuantizeItem items[] = {{rows.get(), view, &x8},
                                    {tensor.get(), view, &x4}};
      ASSERT_THAT(QuantizeMany(items, stream), IsOk());
      const float amax = theirs == 0 ? 3.5f : 7.0f;
      for (const int64_t row : {0, 31}) {
        EXPECT_EQ(ReadDevice(device, x8.row_wise->scale_inv.as<float>() + row,
                             stream),
                  amax / 448);
      }
      if (rank == 0) {
        EXPECT_EQ(
            ReadDevice(device, x8.column_wise->scale_inv.as<float>(), stream),
            3.5f / 448);
      }
      const auto& use = rank == 0 ? x4.row_wise : x4.column_wise;
      EXPECT_EQ(ReadDevice(device, use->tensor_scale_inv.as<float>(), stream),
                1.0f / (2688.0f / amax));
    }
  });
}

TEST_F(UsagesNcclTest, GatheredTensorsAreTheColumnWiseCopyOfAllRows) {
  OnBoth([](int rank, Communicator* communicator, Stream stream) {
    const Device device = Device::Cuda(rank);
    constexpr int64_t kRows = 48, kCols = 40;
    Rig local(UnitRecipe(), kRowWise, device);
    Rig whole(UnitRecipe(), {false, true}, device);
    local.quantizer->SetUsage(Usage::kAllGatherColumnWise, true);
    TestTensor part = TestTensor::Of(
        DType::kBF16, kRows, kCols,
        [&](int64_t r, int64_t c) { return Wave(r + kRows * rank, c); });
    TestTensor all = TestTensor::Of(DType::kBF16, 2 * kRows, kCols, Wave);
    DeviceBytes device_part(device, part.bytes());
    DeviceBytes device_all(device, all.bytes());
    const QuantizedTensor want = ValueOrDie(whole.quantizer->Quantize(
        OnDevice(all.view(), device, device_all.as<void>()), stream));
    const QuantizedTensor mine = ValueOrDie(local.quantizer->Quantize(
        OnDevice(part.view(), device, device_part.as<void>()), stream));
    QuantizedTensor gathered =
        ValueOrDie(MakeGathered(mine, 2, nullptr, stream));
    for (int step = 0; step < 3; ++step) {
      ASSERT_THAT(AllGatherColumnWise(mine, communicator, &gathered, stream),
                  IsOk());
    }
    ASSERT_THAT(Synchronize(device, stream), IsOk());
    EXPECT_EQ(Read(device, gathered.column_wise->codes),
              Read(device, want.column_wise->codes));
    EXPECT_EQ(Read(device, gathered.column_wise->scale_inv),
              Read(device, want.column_wise->scale_inv));
  });
}

}  // namespace
}  // namespace scalekeeper
