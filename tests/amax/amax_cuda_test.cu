// RecipeState on a GPU against the same on the host, bit for bit; graphs;
// observing from kernels; what is refused.
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "amax/in_process_communicator.h"
#include "amax/observe_cuda.cuh"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/amax/cuda_state_testing.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/rank_threads.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint32_t kNaNBits = 0x7FC00001u;

struct SlotValues {
  uint32_t scale, scale_inv, measure, amax;
};

// Raises words, or stores them where they have a sign bit, as a foreign kernel
// that forgot the absolute value would.
__global__ void ObserveKernel(const SlotView* views, const uint32_t* amaxes,
                              int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= count) return;
  if (amaxes[i] & kFloatSignBit) {
    *views[i].amax = amaxes[i];
  } else {
    device::RaiseWord(views[i].amax, amaxes[i]);
  }
}

__global__ void GatherKernel(const SlotView* views, SlotValues* values,
                             int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= count) return;
  values[i] = {BitsFromFloat(*views[i].scale),
               BitsFromFloat(*views[i].scale_inv), *views[i].measure,
               *views[i].amax};
}

// The same slots in a state on the host and in one on a GPU.
class Twins {
 public:
  explicit Twins(const std::string& recipe, int modules,
                 const std::vector<Role>& roles = {Role::kInput, Role::kGrad})
      : stream_(ValueOrDie(CreateCudaStream())) {
    RecipeStateOptions options;
    host_ = MakeState(recipe, options);
    options.device = Device::Cuda(0);
    gpu_ = MakeState(recipe, options);
    for (int i = 0; i < modules; ++i) {
      const std::string name = absl::StrCat("c", i);
      const ModuleSlots module = ValueOrDie(host_->AddModule(name));
      (void)ValueOrDie(gpu_->AddModule(name));
      for (Role role : roles) slots_.push_back(module.slot(role));
    }
    DieUnlessOk(host_->Freeze());
    DieUnlessOk(gpu_->Freeze());
    std::vector<SlotView> views;
    for (SlotId slot : slots_) views.push_back(gpu_->View(slot));
    views_ = std::make_unique<DeviceWords>(Device::Cuda(0),
                                           views.size() * sizeof(SlotView) / 4);
    std::vector<uint32_t> words(views.size() * sizeof(SlotView) / 4);
    std::memcpy(words.data(), views.data(), words.size() * 4);
    views_->Write(words);
    amaxes_ = std::make_unique<DeviceWords>(Device::Cuda(0), slots_.size());
    values_ = std::make_unique<DeviceWords>(
        Device::Cuda(0), slots_.size() * sizeof(SlotValues) / 4);
  }

  size_t size() const { return slots_.size(); }
  RecipeState& host() { return *host_; }
  RecipeState& gpu() { return *gpu_; }
  const std::vector<SlotId>& slots() const { return slots_; }
  const CudaStream& stream() const { return stream_; }
  DeviceWords& amaxes() { return *amaxes_; }

  void ObserveOnHost(const std::vector<uint32_t>& amaxes) {
    for (size_t i = 0; i < slots_.size(); ++i) {
      const SlotView view = host_->View(slots_[i]);
      if (amaxes[i] & kFloatSignBit) {
        *view.amax = amaxes[i];
      } else {
        Observe(view, amaxes[i]);
      }
    }
  }
  // From amaxes().
  void QueueObserve() {
    const int count = static_cast<int>(slots_.size());
    ObserveKernel<<<(count + 255) / 256, 256, 0, stream_.get()>>>(
        reinterpret_cast<const SlotView*>(views_->data()), amaxes_->data(),
        count);
  }
  void ObserveOnBoth(const std::vector<uint32_t>& amaxes) {
    ObserveOnHost(amaxes);
    amaxes_->Write(amaxes);
    QueueObserve();
  }
  void Step(const std::vector<uint32_t>& amaxes) {
    ObserveOnBoth(amaxes);
    ASSERT_THAT(host_->EndStep(Stream{}), IsOk());
    ASSERT_THAT(gpu_->EndStep(AsStream(stream_)), IsOk());
  }

  void ExpectEqualSlots(const std::string& where) {
    const int count = static_cast<int>(slots_.size());
    GatherKernel<<<(count + 255) / 256, 256, 0, stream_.get()>>>(
        reinterpret_cast<const SlotView*>(views_->data()),
        reinterpret_cast<SlotValues*>(values_->data()), count);
    DieUnlessOk(Synchronize(Device::Cuda(0), AsStream(stream_)));
    const std::vector<uint32_t> words = values_->Read();
    for (size_t i = 0; i < slots_.size(); ++i) {
      const SlotView view = host_->View(slots_[i]);
      ASSERT_EQ(words[i * 4], FloatBits(*view.scale))
          << host_->name(slots_[i]) << ", " << where;
      ASSERT_EQ(words[i * 4 + 1], FloatBits(*view.scale_inv)) << where;
      ASSERT_EQ(words[i * 4 + 2], *view.measure) << where;
      ASSERT_EQ(words[i * 4 + 3], *view.amax) << where;
    }
  }
  void ExpectEqualWindows(const std::string& where) {
    for (SlotId slot : slots_) {
      ASSERT_EQ(ValueOrDie(gpu_->Window(slot, AsStream(stream_))),
                ValueOrDie(host_->Window(slot, Stream{})))
          << host_->name(slot) << ", " << where;
    }
  }
  void ExpectEqualReports() {
    EXPECT_EQ(gpu_->Check(AsStream(stream_)), host_->Check(Stream{}));
    EXPECT_EQ(ValueOrDie(gpu_->NonFiniteSlots(AsStream(stream_))),
              ValueOrDie(host_->NonFiniteSlots(Stream{})));
    EXPECT_EQ(gpu_->step(), host_->step());
    EXPECT_EQ(gpu_->counters().updates, host_->counters().updates);
    EXPECT_EQ(gpu_->counters().skipped, host_->counters().skipped);
  }

 private:
  CudaStream stream_;
  std::unique_ptr<RecipeState> host_, gpu_;
  std::vector<SlotId> slots_;
  std::unique_ptr<DeviceWords> views_, amaxes_, values_;
};

// One module per mix of options: "c0", "c1", ...
std::string RecipeOfAllMixes(int* modules) {
  static constexpr const char* kAlgos[] = {"MAX", "MOST_RECENT"};
  static constexpr const char* kPolicies[] = {"SKIP", "FREEZE", "BACK_OFF"};
  std::string recipe = "defaults { all { delayed { } } }\n";
  int next = 0;
  for (int n : {1, 2, 3, 4, 5, 15, 16, 17, 255, 256, 257, 1024}) {
    for (const char* algo : kAlgos) {
      for (const char* policy : kPolicies) {
        for (int margin : {0, 1, 32}) {
          const std::string delayed = absl::StrCat(
              "delayed { amax_history_len: ", n, " amax_compute_algo: ", algo,
              " non_finite_amax: ", policy, " margin: ", margin, " }");
          absl::StrAppend(&recipe, "rule { module: \"c", next++,
                          "\" all { format: E4M3 ", delayed,
                          " } grad { format: E5M2 ", delayed, " } }\n");
        }
      }
    }
  }
  *modules = next;
  return recipe;
}

// Magnitudes over the whole range of float32, and every special value.
uint32_t RandomAmax(std::mt19937* random) {
  switch ((*random)() % 24) {
    case 0:
      return 0;
    case 1:
      return kFloatInfBits;
    case 2:
      return kNaNBits;
    case 3:
      return 0x80000000u;
    case 4:
      return 0xC1000000u;
    case 5:
      return (*random)() & kFloatMagnitudeMask;
    case 6:
      return (*random)() % 0x00800000u;
    default:
      return 0x3F000000u + (*random)() % 0x02000000u;
  }
}

std::vector<uint32_t> RandomAmaxes(size_t count, std::mt19937* random) {
  std::vector<uint32_t> amaxes(count);
  for (uint32_t& amax : amaxes) amax = RandomAmax(random);
  return amaxes;
}

class AmaxCudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    EndProcessAfter(300);
    if (GpuCount() < 1) GTEST_SKIP() << "needs a GPU";
  }
};

TEST_F(AmaxCudaTest, EveryMixOfOptionsGivesTheBitsOfTheHost) {
  int modules = 0;
  const std::string recipe = RecipeOfAllMixes(&modules);
  Twins twins(recipe, modules);
  std::mt19937 random(20240601);
  for (int step = 0; step < 1400; ++step) {
    const std::string where = absl::StrCat("step ", step);
    if (random() % 64 == 0) {  // a step that is undone leaves no trace
      twins.Step(RandomAmaxes(twins.size(), &random));
      ASSERT_THAT(twins.host().RestorePrevious(Stream{}), IsOk());
      ASSERT_THAT(twins.gpu().RestorePrevious(AsStream(twins.stream())),
                  IsOk());
      twins.ExpectEqualSlots(where + " undone");
    }
    twins.Step(RandomAmaxes(twins.size(), &random));
    twins.ExpectEqualSlots(where);
    if (step % 350 == 349) twins.ExpectEqualWindows(where);
    if (HasFatalFailure()) return;
  }
  twins.ExpectEqualReports();
}

TEST_F(AmaxCudaTest, ManySlotsAndFallingAmaxesGiveTheBitsOfTheHost) {
  Twins twins("defaults { all { format: E4M3 delayed { } } }", 10000,
              {Role::kInput});
  for (int step = 0; step < 40; ++step) {
    std::vector<uint32_t> amaxes(twins.size());
    for (size_t i = 0; i < amaxes.size(); ++i) {
      amaxes[i] = FloatBits(1000.0f / static_cast<float>(1 + step) +
                            static_cast<float>(i));
    }
    twins.Step(amaxes);
    twins.ExpectEqualSlots(absl::StrCat("step ", step));
    if (HasFatalFailure()) return;
  }
}

TEST_F(AmaxCudaTest, ASkipFlagOnTheDeviceDropsTheStep) {
  Twins twins("defaults { all { format: E4M3 delayed { } } }", 3);
  DeviceWords flag(Device::Cuda(0), 1);
  std::mt19937 random(7);
  for (uint32_t skip : {0u, 1u, 0u, 5u, 0u}) {
    twins.ObserveOnBoth(RandomAmaxes(twins.size(), &random));
    flag.Write({skip});
    ASSERT_THAT(twins.host().EndStep(Stream{}, &skip), IsOk());
    ASSERT_THAT(twins.gpu().EndStep(AsStream(twins.stream()), flag.data()),
                IsOk());
    twins.ExpectEqualSlots(absl::StrCat("skip ", skip));
  }
  twins.ExpectEqualReports();
  EXPECT_EQ(twins.gpu().counters().skipped, 2);
}

TEST_F(AmaxCudaTest, ThePartsOfAStepGiveTheSame) {
  Twins twins("defaults { all { format: E4M3 delayed { } } }", 3);
  std::mt19937 random(8);
  for (int step = 0; step < 5; ++step) {
    twins.ObserveOnBoth(RandomAmaxes(twins.size(), &random));
    ASSERT_THAT(twins.host().EndStep(Stream{}), IsOk());
    const Stream stream = AsStream(twins.stream());
    ASSERT_THAT(twins.gpu().Pack(stream), IsOk());
    EXPECT_EQ(ValueOrDie(twins.gpu().AmaxMessage("default")).count,
              ValueOrDie(twins.host().AmaxMessage("default")).count);
    ASSERT_THAT(twins.gpu().Update(stream), IsOk());
    twins.ExpectEqualSlots(absl::StrCat("step ", step));
  }
}

TEST_F(AmaxCudaTest, PhasesSwitchAsOnTheHost) {
  const auto phase = [](int from, const std::string& delayed,
                        const std::string& grad_format) {
    return absl::StrCat("phase { from_step: ", from,
                        " all { format: E4M3 delayed { ", delayed,
                        " } } grad { format: ", grad_format, " delayed { ",
                        delayed, " } } }\n");
  };
  Twins twins(
      absl::StrCat("defaults { all { format: E4M3 delayed { amax_history_len: "
                   "5 } } }\n",
                   phase(6, "amax_history_len: 2", "E4M3"),
                   phase(9, "amax_history_len: 7 margin: 1", "E5M2"),
                   "phase { from_step: 12 all { high_precision {} } }\n",
                   phase(15, "amax_compute_algo: MOST_RECENT", "E4M3")),
      5);
  std::mt19937 random(9);
  for (int step = 0; step < 20; ++step) {
    const std::string where = absl::StrCat("step ", step);
    twins.Step(RandomAmaxes(twins.size(), &random));
    ASSERT_EQ(twins.gpu().active_phase(), twins.host().active_phase());
    twins.ExpectEqualSlots(where);
    twins.ExpectEqualWindows(where);
    if (step % 3 == 2) {  // also over a change of phase
      ASSERT_THAT(twins.host().RestorePrevious(Stream{}), IsOk());
      ASSERT_THAT(twins.gpu().RestorePrevious(AsStream(twins.stream())),
                  IsOk());
      ASSERT_EQ(twins.gpu().active_phase(), twins.host().active_phase());
      ASSERT_EQ(twins.gpu().step(), twins.host().step());
      twins.ExpectEqualSlots(where + " undone");
      twins.Step(RandomAmaxes(twins.size(), &random));
      twins.ExpectEqualSlots(where + " again");
    }
    if (HasFatalFailure()) return;
  }
  ASSERT_THAT(twins.host().SetStep(7), IsOk());
  ASSERT_THAT(twins.gpu().SetStep(7), IsOk());
  EXPECT_EQ(twins.gpu().active_phase(), 1);
  twins.Step(RandomAmaxes(twins.size(), &random));
  twins.ExpectEqualSlots("after SetStep");
  twins.ExpectEqualReports();
}

// The first step included: nothing is left to do at a first launch.
TEST_F(AmaxCudaTest, AGraphThatIsReplayedGivesTheBitsOfTheHost) {
  int modules = 0;
  const std::string recipe = RecipeOfAllMixes(&modules);
  for (bool with_flag : {false, true}) {
    Twins twins(recipe, modules);
    DeviceWords flag(Device::Cuda(0), 1);
    twins.QueueObserve();  // loads this test's kernel; observes zeros
    const CudaGraphExec graph = Capture(twins.stream(), [&] {
      twins.QueueObserve();
      ASSERT_THAT(twins.gpu().EndStep(AsStream(twins.stream()),
                                      with_flag ? flag.data() : nullptr),
                  IsOk());
    });
    EXPECT_EQ(twins.gpu().counters().updates, 0) << "captured, not run";
    std::mt19937 random(10);
    for (int step = 0; step < 100; ++step) {
      const std::vector<uint32_t> amaxes = RandomAmaxes(twins.size(), &random);
      const uint32_t skip = with_flag && step % 5 == 1 ? 1 : 0;
      flag.Write({skip});
      twins.ObserveOnHost(amaxes);
      twins.amaxes().Write(amaxes);
      ASSERT_THAT(twins.host().EndStep(Stream{}, &skip), IsOk());
      ASSERT_EQ(cudaGraphLaunch(graph.get(), twins.stream().get()),
                cudaSuccess);
      twins.ExpectEqualSlots(absl::StrCat("replay ", step));
      if (HasFatalFailure()) return;
    }
    twins.ExpectEqualWindows("after the replays");
    EXPECT_EQ(twins.gpu().Check(AsStream(twins.stream())),
              twins.host().Check(Stream{}));
    EXPECT_EQ(twins.gpu().step(), 100) << "known after Check";
    ASSERT_THAT(twins.gpu().RestorePrevious(AsStream(twins.stream())), IsOk());
    ASSERT_THAT(twins.host().RestorePrevious(Stream{}), IsOk());
    twins.ExpectEqualSlots("undone");
  }
}

TEST_F(AmaxCudaTest, AGraphOfAnotherPhaseIsRefused) {  // L13
  Twins twins(
      "defaults { all { format: E4M3 delayed { amax_history_len: 4 } } }\n"
      "phase { from_step: 100 all { format: E4M3 delayed { amax_history_len: "
      "8 } } }",
      2);
  const CudaGraphExec graph = Capture(twins.stream(), [&] {
    ASSERT_THAT(twins.gpu().EndStep(AsStream(twins.stream())), IsOk());
  });
  ASSERT_THAT(twins.gpu().SetStep(100), IsOk());
  SetAmax(twins.gpu(), twins.slots()[0], FloatBits(1), Stream{});
  ASSERT_EQ(cudaGraphLaunch(graph.get(), twins.stream().get()), cudaSuccess);
  EXPECT_THAT(twins.gpu().Check(AsStream(twins.stream())),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("captured in another phase")));
  EXPECT_EQ(twins.gpu().step(), 100);
  ASSERT_THAT(twins.gpu().ClearFlags(AsStream(twins.stream())), IsOk());
  EXPECT_THAT(twins.gpu().Check(AsStream(twins.stream())), IsOk());
}

__global__ void ObserveManyKernel(SlotView slot, int kind, const float* values,
                                  int count) {
  uint32_t amax = 0;
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
       i < count; i += static_cast<int>(gridDim.x * blockDim.x)) {
    if (kind == 0) device::Observe(slot, values[i]);
    amax = MaxBits(amax, AmaxBits(values[i]));
  }
  if (kind == 1) device::ObserveWarp(slot, amax);
  if (kind == 2) device::ObserveBlock(slot, amax);
}

TEST_F(AmaxCudaTest, ManyBlocksObserveOneSlot) {
  OneModule m = FrozenModule(DelayedRecipe(""), [] {
    RecipeStateOptions options;
    options.device = Device::Cuda(0);
    return options;
  }());
  constexpr int kCount = 100000;
  DeviceWords values(Device::Cuda(0), kCount);
  const SlotView view = m.state->View(m.slots.input);
  for (int kind = 0; kind < 3; ++kind) {
    for (uint32_t top : {FloatBits(-77.0f), kFloatInfBits, 0xFFC00001u}) {
      std::vector<uint32_t> words(kCount);
      for (int i = 0; i < kCount; ++i) {
        words[static_cast<size_t>(i)] =
            FloatBits(static_cast<float>(i % 7) * (i % 2 == 0 ? 1 : -1));
      }
      words[static_cast<size_t>(kCount) * 2 / 3] = top;
      values.Write(words);
      SetAmax(*m.state, m.slots.input, 0, Stream{});
      ObserveManyKernel<<<97, 96>>>(
          view, kind, reinterpret_cast<const float*>(values.data()), kCount);
      EXPECT_EQ(ReadDevice(Device::Cuda(0), view.amax, Stream{}),
                top & kFloatMagnitudeMask)
          << kind;
    }
  }
}

// Ranks that share one GPU over a communicator of host memory.
TEST_F(AmaxCudaTest, AHostCommunicatorServesStatesOnAGpu) {
  const auto group = CreateInProcessCommunicators(2);
  std::vector<std::unique_ptr<OneModule>> ranks;
  for (int r = 0; r < 2; ++r) {
    RecipeStateOptions options;
    options.device = Device::Cuda(0);
    options.groups["default"] = group[static_cast<size_t>(r)].get();
    ranks.push_back(std::make_unique<OneModule>(DelayedRecipe(""), options));
  }
  RunRanks(2, [&](int rank) {
    OneModule& m = *ranks[static_cast<size_t>(rank)];
    ASSERT_THAT(m.Freeze(), IsOk());
    SetAmax(*m.state, m.slots.input, FloatBits(rank == 0 ? 1 : 8), Stream{});
    ASSERT_THAT(m.state->EndStep(Stream{}), IsOk());
    EXPECT_EQ(m.Scale(), 56);
    EXPECT_THAT(m.state->Describe(), HasSubstr("reduction in host memory"));
    // Only rank 1 sees a NaN.
    SetAmax(*m.state, m.slots.input, rank == 0 ? FloatBits(1) : kNaNBits,
            Stream{});
    ASSERT_THAT(m.state->EndStep(Stream{}), IsOk());
    EXPECT_THAT(ValueOrDie(m.state->NonFiniteSlots(Stream{})),
                ElementsAre("m/input"));
  });
}

TEST_F(AmaxCudaTest, RanksThatDisagreeAreReported) {
  const auto group = CreateInProcessCommunicators(2);
  std::vector<std::unique_ptr<OneModule>> ranks;
  for (int r = 0; r < 2; ++r) {
    RecipeStateOptions options;
    options.device = Device::Cuda(0);
    options.groups["default"] = group[static_cast<size_t>(r)].get();
    ranks.push_back(std::make_unique<OneModule>(DelayedRecipe(""), options));
  }
  RunRanks(2, [&](int rank) {
    OneModule& m = *ranks[static_cast<size_t>(rank)];
    ASSERT_THAT(m.Freeze(), IsOk());
    if (rank == 1) ASSERT_THAT(m.state->SetStep(5), IsOk());
    SetAmax(*m.state, m.slots.input, FloatBits(8), Stream{});
    (void)m.state->EndStep(Stream{});
    EXPECT_THAT(m.state->Check(Stream{}), StatusIs(absl::StatusCode::kDataLoss,
                                                   HasSubstr("\"default\"")));
    EXPECT_EQ(m.state->step(), rank == 1 ? 5 : 0) << "nothing was updated";
    EXPECT_EQ(m.Scale(), 1);
    EXPECT_EQ(ReadDevice(Device::Cuda(0), m.state->View(m.slots.input).amax,
                         Stream{}),
              FloatBits(8))
        << "the observation is kept";
  });
}

TEST_F(AmaxCudaTest, AddressesAndTheCurrentDeviceStay) {  // H8
  RecipeStateOptions options;
  options.device = Device::Cuda(GpuCount() - 1);
  OneModule m(DelayedRecipe("",
                            "phase { from_step: 2 all { format: E4M3 "
                            "delayed { amax_history_len: 3 margin: 1 } } }"),
              options);
  ASSERT_THAT(m.Freeze(), IsOk());
  const SlotView before = m.state->View(m.slots.input);
  for (int step = 0; step < 4; ++step) {
    SetAmax(*m.state, m.slots.input, FloatBits(2), Stream{});
    ASSERT_THAT(m.state->EndStep(Stream{}), IsOk());
  }
  ASSERT_THAT(m.state->Check(Stream{}), IsOk());
  EXPECT_EQ(m.Scale(), 112);
  const SlotView after = m.state->View(m.slots.input);
  EXPECT_EQ(before.amax, after.amax);
  EXPECT_EQ(before.scale, after.scale);
  int device = -1;
  ASSERT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 0);
  cudaPointerAttributes attributes = {};
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, after.scale), cudaSuccess);
  EXPECT_EQ(attributes.device, options.device.index);
}

TEST_F(AmaxCudaTest, WhatCannotBeHadIsNamed) {
  RecipeStateOptions options;
  options.device = Device::Cuda(99);
  EXPECT_THAT(RecipeState::Create(ParseRecipe(DelayedRecipe("")), options),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("device cuda:99: this machine has")));
  class Empty : public Allocator {
   public:
    absl::StatusOr<void*> Allocate(size_t bytes) override {
      return absl::ResourceExhaustedError(absl::StrCat(bytes, " bytes"));
    }
    void Deallocate(void*, size_t) override {}
    Device device() const override { return Device::Cuda(0); }
  };
  Empty empty;
  options.device = Device::Cuda(0);
  options.allocator = &empty;
  OneModule m(DelayedRecipe(""), options);
  EXPECT_THAT(m.Freeze(), StatusIs(absl::StatusCode::kResourceExhausted,
                                   HasSubstr("bytes")));
}

}  // namespace
}  // namespace scalekeeper
