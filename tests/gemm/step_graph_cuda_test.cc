// Whole steps of a linear layer (quantize input, weight and grad, three
// products, EndStep) in one CUDA graph against eager ones, bit for bit, the
// first step of the state included; nothing is allocated in a step.
//
// What must come before the capture: one Matmul per shape and stream
// (gemm/matmul.h), whose operands may be anything.
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "gemm/matmul.h"
#include "gtest/gtest.h"
#include "quantizer/quantizer.h"
#include "tests/amax/nccl_testing.h"
#include "tests/gemm/gemm_testing.h"
#include "tests/testing/device_tensor.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/test_tensor.h"

namespace scalekeeper {
namespace {

constexpr int kReplays = 100;
constexpr int64_t kTokens = 64, kIn = 128, kOut = 96;
constexpr Usages kBoth = {true, true};

const char kRecipe[] =
    "defaults { input { format: E4M3 delayed { amax_history_len: 5 } } "
    "weight { format: E4M3 delayed { amax_history_len: 1 margin: 1 } } "
    "grad { format: E5M2 delayed { amax_history_len: 3 "
    "amax_compute_algo: MOST_RECENT } } }";

// Counts what it hands out.
class CountingAllocator : public Allocator {
 public:
  explicit CountingAllocator(Device device)
      : base_(ValueOrDie(DefaultAllocator(device))) {}
  absl::StatusOr<void*> Allocate(size_t bytes) override {
    ++allocations;
    return base_->Allocate(bytes);
  }
  void Deallocate(void* data, size_t bytes) override {
    base_->Deallocate(data, bytes);
  }
  Device device() const override { return base_->device(); }

  int allocations = 0;

 private:
  Allocator* const base_;
};

// A linear layer of one rank: its tensors, and what a step does to them.
class Layer {
 public:
  Layer(RecipeState* state, const ModuleSlots& slots, const CudaStream& stream,
        Allocator* allocator)
      : state_(state),
        slots_(slots),
        stream_(stream),
        device_(state->device()),
        x_(Make(DType::kBF16, kTokens, kIn)),
        w_(Make(DType::kBF16, kOut, kIn)),
        dy_(Make(DType::kBF16, kTokens, kOut)),
        y_(Make(DType::kBF16, kTokens, kOut)),
        dx_(Make(DType::kBF16, kTokens, kIn)),
        dw_(Make(DType::kF32, kOut, kIn)),
        skip_(device_, 1) {
    DeviceTensor* const inputs[] = {&x_, &w_, &dy_};
    for (size_t i = 0; i < 3; ++i) {
      quantizers_.push_back(ValueOrDie(
          MakeQuantizer(state, slots.slot(kRoles[i]), kBoth, allocator)));
      const TensorView view = inputs[i]->view();
      quantized_.push_back(ValueOrDie(
          quantizers_[i]->MakeEmpty(view.rows, view.cols, AsStream(stream))));
    }
    WarmUp();
  }

  // Other values in each step and on each rank, of very different size.
  void Fill(int step, int rank, bool skip) {
    uint32_t seed = static_cast<uint32_t>(step * 16 + rank * 4);
    for (DeviceTensor* tensor : {&x_, &w_, &dy_}) {
      ++seed;
      const float size = std::ldexp(1.0f, static_cast<int>(seed * 7 % 23) - 12);
      TensorView view = tensor->view();
      TestTensor host = TestTensor::Of(
          view.dtype, view.rows, view.cols,
          [&](int64_t r, int64_t c) { return size * RandomValue(r, c, seed); });
      DieUnlessOk(CopyFromHost(device_, view.data, host.bytes().data(),
                               host.bytes().size(), AsStream(stream_)));
    }
    skip_.Write({skip ? 1u : 0u});
  }

  // Queues a step.
  absl::Status Step() {
    DeviceTensor* const inputs[] = {&x_, &w_, &dy_};
    for (size_t i = 0; i < 3; ++i) {
      SK_RETURN_IF_ERROR(quantizers_[i]->QuantizeInto(
          inputs[i]->view(), &quantized_[i], nullptr, AsStream(stream_)));
    }
    SK_RETURN_IF_ERROR(Products());
    return state_->EndStep(AsStream(stream_), skip_.data());
  }

  // Everything that a step writes, by name.
  std::vector<std::pair<std::string, std::vector<uint8_t>>> Written() {
    std::vector<std::pair<std::string, std::vector<uint8_t>>> all;
    const auto add = [&](const std::string& name, const void* data,
                         size_t bytes) {
      std::vector<uint8_t> host(bytes);
      DieUnlessOk(
          CopyToHost(device_, host.data(), data, bytes, AsStream(stream_)));
      all.emplace_back(name, std::move(host));
    };
    for (size_t i = 0; i < 3; ++i) {
      const std::string role(Name(kRoles[i]));
      const QuantizedTensor& q = quantized_[i];
      for (const QuantizedData* data : {&*q.row_wise, &*q.column_wise}) {
        add(role + " codes", data->codes.data(), data->codes.size());
        add(role + " scale_inv", data->scale_inv.data(), sizeof(float));
      }
      const SlotId slot = slots_.slot(kRoles[i]);
      const SlotView view = state_->View(slot);
      add(role + " amax", view.amax, sizeof(uint32_t));
      add(role + " slot scale", view.scale, sizeof(float));
      add(role + " slot scale_inv", view.scale_inv, sizeof(float));
      add(role + " slot measure", view.measure, sizeof(uint32_t));
      std::vector<uint8_t> window;
      for (const uint32_t bits :
           ValueOrDie(state_->Window(slot, AsStream(stream_)))) {
        for (int b = 0; b < 4; ++b) {
          window.push_back(static_cast<uint8_t>(bits >> (8 * b)));
        }
      }
      all.emplace_back(role + " window", std::move(window));
    }
    for (DeviceTensor* tensor : {&y_, &dx_, &dw_}) {
      const TensorView view = tensor->view();
      add(absl::StrCat("product ", view.rows, "x", view.cols), view.data,
          static_cast<size_t>(view.size()) * SizeOf(view.dtype));
    }
    return all;
  }

 private:
  DeviceTensor Make(DType dtype, int64_t rows, int64_t cols) {
    return ValueOrDie(DeviceTensor::Of(
        device_, TestTensor::Of(dtype, rows, cols,
                                [](int64_t, int64_t) { return 0.0f; })));
  }
  absl::Status Products() {
    const Stream stream = AsStream(stream_);
    MatmulOptions options;
    options.deterministic = true;
    options.transb = true;
    options.fast_accum = true;
    SK_RETURN_IF_ERROR(
        Matmul(quantized_[0], quantized_[1], y_.view(), options, stream));
    options.transb = false;
    options.fast_accum = false;
    SK_RETURN_IF_ERROR(
        Matmul(quantized_[2], quantized_[1], dx_.view(), options, stream));
    options.transa = true;
    options.accumulate = true;
    return Matmul(quantized_[2], quantized_[0], dw_.view(), options, stream);
  }
  void WarmUp() {
    DieUnlessOk(Products());
    for (DeviceTensor* tensor : {&y_, &dx_, &dw_}) {
      const TensorView view = tensor->view();
      DieUnlessOk(
          FillBytes(device_, view.data, 0,
                    static_cast<size_t>(view.size()) * SizeOf(view.dtype),
                    AsStream(stream_)));
    }
    DieUnlessOk(Synchronize(device_, AsStream(stream_)));
  }

  RecipeState* const state_;
  const ModuleSlots slots_;
  const CudaStream& stream_;
  const Device device_;
  DeviceTensor x_, w_, dy_, y_, dx_, dw_;
  DeviceWords skip_;
  std::vector<std::unique_ptr<Quantizer>> quantizers_;
  std::vector<QuantizedTensor> quantized_;
};

bool Skips(int step) { return step % 5 == 3; }

void ExpectSame(Layer& replayed, Layer& eager, int step) {
  const auto got = replayed.Written();
  const auto want = eager.Written();
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(got[i].second == want[i].second)
        << got[i].first << " after replay " << step;
  }
}

// Of the whole GPU: nobody else may be using it.
size_t FreeMemory() {
  size_t free = 0, total = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  return free;
}

TEST(StepGraphTest, OneRank) {
  EndProcessAfter(120);
  if (GpuCount() < 1) GTEST_SKIP() << "needs a GPU";
  CountingAllocator allocator(Device::Cuda(0));
  RecipeStateOptions options;
  options.device = Device::Cuda(0);
  options.allocator = &allocator;
  const CudaStream streams[] = {ValueOrDie(CreateCudaStream()),
                                ValueOrDie(CreateCudaStream())};
  OneModule replayed(kRecipe, options), eager(kRecipe, options);
  ASSERT_THAT(replayed.Freeze(), IsOk());
  ASSERT_THAT(eager.Freeze(), IsOk());
  Layer graph_layer(replayed.state.get(), replayed.slots, streams[0],
                    &allocator);
  Layer eager_layer(eager.state.get(), eager.slots, streams[1], &allocator);
  absl::Status captured;
  const CudaGraphExec graph =
      Capture(streams[0], [&] { captured = graph_layer.Step(); });
  ASSERT_THAT(captured, IsOk());
  int allocations = 0;
  size_t free = 0;
  for (int step = 0; step < kReplays; ++step) {
    if (step == 1) {  // the first launch of a graph loads it
      allocations = allocator.allocations;
      free = FreeMemory();
    }
    graph_layer.Fill(step, 0, Skips(step));
    eager_layer.Fill(step, 0, Skips(step));
    ASSERT_EQ(cudaGraphLaunch(graph.get(), streams[0].get()), cudaSuccess);
    ASSERT_THAT(eager_layer.Step(), IsOk());
    ExpectSame(graph_layer, eager_layer, step);
    if (::testing::Test::HasFatalFailure()) return;
  }
  EXPECT_EQ(allocator.allocations, allocations);
  EXPECT_EQ(FreeMemory(), free);
  EXPECT_THAT(replayed.state->Check(AsStream(streams[0])), IsOk());
  EXPECT_EQ(replayed.state->counters().skipped, kReplays / 5);
}

class TwoRankStepGraphTest : public TwoGpuTest,
                             public ::testing::WithParamInterface<Exchange> {};

INSTANTIATE_TEST_SUITE_P(Paths, TwoRankStepGraphTest,
                         ::testing::Values(Exchange::kFused,
                                           Exchange::kAllReduce),
                         [](const auto& info) {
                           return info.param == Exchange::kFused ? "OneKernel"
                                                                 : "AllReduce";
                         });

// A job of two ranks with one layer each.
struct LayerJob {
  explicit LayerJob(Exchange exchange)
      : ranks(kRecipe, exchange), allocators(2), layers(2) {
    std::vector<ModuleSlots> slots(2);
    for (size_t r = 0; r < 2; ++r) {
      slots[r] =
          ValueOrDie(ranks.state(static_cast<int>(r)).AddModule("linear"));
      allocators[r] = std::make_unique<CountingAllocator>(
          Device::Cuda(static_cast<int>(r)));
    }
    ranks.Freeze();
    for (size_t r = 0; r < 2; ++r) {
      const int rank = static_cast<int>(r);
      layers[r] =
          std::make_unique<Layer>(&ranks.state(rank), slots[r],
                                  ranks.cuda_stream(rank), allocators[r].get());
    }
  }
  int Allocations() const {
    return allocators[0]->allocations + allocators[1]->allocations;
  }

  TwoRanks ranks;
  std::vector<std::unique_ptr<CountingAllocator>> allocators;
  std::vector<std::unique_ptr<Layer>> layers;
};

TEST_P(TwoRankStepGraphTest, EqualsEagerSteps) {
  LayerJob replayed(GetParam()), eager(GetParam());
  std::vector<CudaGraphExec> graphs(2);
  for (const absl::Status& status : replayed.ranks.OnBoth([&](int rank) {
         absl::Status captured;
         graphs[static_cast<size_t>(rank)] =
             Capture(replayed.ranks.cuda_stream(rank), [&] {
               captured = replayed.layers[static_cast<size_t>(rank)]->Step();
             });
         return captured;
       })) {
    ASSERT_THAT(status, IsOk());
  }
  int allocations = 0;
  for (int step = 0; step < kReplays; ++step) {
    if (step == 1) {
      allocations = replayed.Allocations() + eager.Allocations();
    }
    // A skip on one rank drops the step on both.
    for (const absl::Status& status : replayed.ranks.OnBoth([&](int rank) {
           const size_t r = static_cast<size_t>(rank);
           replayed.layers[r]->Fill(step, rank, rank == 1 && Skips(step));
           return CudaStatus(
               cudaGraphLaunch(graphs[r].get(),
                               replayed.ranks.cuda_stream(rank).get()),
               "cudaGraphLaunch");
         })) {
      ASSERT_THAT(status, IsOk());
    }
    for (const absl::Status& status : eager.ranks.OnBoth([&](int rank) {
           const size_t r = static_cast<size_t>(rank);
           eager.layers[r]->Fill(step, rank, rank == 1 && Skips(step));
           return eager.layers[r]->Step();
         })) {
      ASSERT_THAT(status, IsOk());
    }
    for (size_t r = 0; r < 2; ++r) {
      SCOPED_TRACE(absl::StrCat("rank ", r));
      ExpectSame(*replayed.layers[r], *eager.layers[r], step);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_EQ(replayed.Allocations() + eager.Allocations(), allocations);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(replayed.ranks.state(rank).Check(replayed.ranks.stream(rank)),
                IsOk());
    EXPECT_EQ(replayed.ranks.state(rank).step(), kReplays);
    EXPECT_EQ(replayed.ranks.state(rank).counters().skipped, kReplays / 5);
  }
}

}  // namespace
}  // namespace scalekeeper
