// Two ranks on two GPUs, by the one-kernel exchange and by the all-reduce: the
// same bits, and no failure that hangs or leaves half a step.
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "amax/device_group.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/amax/nccl_testing.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr auto kDeadlineExceeded = absl::StatusCode::kDeadlineExceeded;
constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;

class ExchangeTest : public TwoGpuTest,
                     public ::testing::WithParamInterface<Exchange> {};

INSTANTIATE_TEST_SUITE_P(Paths, ExchangeTest,
                         ::testing::Values(Exchange::kFused,
                                           Exchange::kAllReduce),
                         [](const auto& info) {
                           return info.param == Exchange::kFused ? "OneKernel"
                                                                 : "AllReduce";
                         });

TEST_P(ExchangeTest, ScalesComeFromTheMaximumOverRanks) {  // I7, G3
  TwoRanks job(DelayedRecipe("amax_history_len: 2"), GetParam());
  job.Freeze();
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(
        job.state(rank).Describe(),
        HasSubstr(GetParam() == Exchange::kFused ? "one kernel that exchanges"
                                                 : "all-reduce, update"));
  }
  const std::vector<std::vector<float>> steps = {
      {1, 8, 56}, {100, 1, 4.48f}, {0, 0, 4.48f}, {0, 2, 4.48f}, {4, 0, 112}};
  for (const std::vector<float>& step : steps) {
    for (const absl::Status& status : job.Step(step[0], step[1])) {
      ASSERT_THAT(status, IsOk());
    }
    EXPECT_EQ(job.Scale(0), step[2]);
    EXPECT_EQ(job.Scale(1), step[2]);
  }
  EXPECT_EQ(job.state(0).counters().collectives, 5);
}

TEST_P(ExchangeTest, ANaNOnOneRankIsSeenOnAll) {
  TwoRanks job(DelayedRecipe(""), GetParam());
  job.Freeze();
  (void)job.Step(8, 1);
  (void)job.Step(2, kNaN);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(job.Scale(rank), 56);
    EXPECT_THAT(job.state(rank).Check(job.stream(rank)),
                StatusIs(absl::StatusCode::kOutOfRange,
                         HasSubstr("\"m0/input\" (1 step)")));
  }
}

TEST_P(ExchangeTest, AForeignMinusZeroDoesNoHarm) {
  TwoRanks job(DelayedRecipe(""), GetParam());
  job.Freeze();
  (void)job.Step(-0.0f, 8);
  EXPECT_EQ(job.Scale(0), 56);
  EXPECT_EQ(job.Scale(1), 56);
}

// Odd numbers of slots, several blocks, all three policies; against a state on
// the host that observes the maximum.
TEST_P(ExchangeTest, ManySlotsGiveTheBitsOfTheHost) {
  const std::string recipe = DelayedRecipe(
      "amax_history_len: 5 non_finite_amax: FREEZE",
      "rule { module: \"m.*3\" all { delayed { amax_history_len: 1024 "
      "non_finite_amax: BACK_OFF margin: 1 } } }");
  constexpr int kModules = 701;
  TwoRanks job(recipe, GetParam(), absl::Seconds(20), kModules);
  job.Freeze();
  auto host = MakeState(recipe);
  std::vector<SlotId> host_slots;
  for (int m = 0; m < kModules; ++m) {
    host_slots.push_back(
        ValueOrDie(host->AddModule("m" + std::to_string(m))).input);
  }
  ASSERT_THAT(host->Freeze(), IsOk());
  std::mt19937 random(3);
  for (int step = 0; step < 12; ++step) {
    std::vector<std::vector<uint32_t>> amaxes(2);
    for (auto& rank : amaxes) {
      for (int m = 0; m < kModules; ++m) {
        const uint32_t kind = random() % 16;
        rank.push_back(kind == 0   ? 0
                       : kind == 1 ? 0x7FC00000u
                                   : 0x3F000000u + random() % 0x02000000u);
      }
    }
    for (size_t m = 0; m < kModules; ++m) {
      Observe(host->View(host_slots[m]), amaxes[0][m]);
      Observe(host->View(host_slots[m]), amaxes[1][m]);
    }
    ASSERT_THAT(host->EndStep(Stream{}), IsOk());
    for (const absl::Status& status : job.OnBoth([&](int rank) {
           for (size_t m = 0; m < kModules; ++m) {
             SetAmax(job.state(rank), job.slots()[m],
                     amaxes[static_cast<size_t>(rank)][m], job.stream(rank));
           }
           return job.state(rank).EndStep(job.stream(rank));
         })) {
      ASSERT_THAT(status, IsOk());
    }
    for (int rank = 0; rank < 2; ++rank) {
      for (size_t m = 0; m < kModules; ++m) {
        ASSERT_EQ(FloatBits(job.Scale(rank, m)),
                  FloatBits(*host->View(host_slots[m]).scale))
            << "rank " << rank << " slot " << m << " step " << step;
      }
    }
  }
}

TEST_P(ExchangeTest, ASkipOnOneRankDropsTheStepOnAll) {
  TwoRanks job(DelayedRecipe(""), GetParam());
  job.Freeze();
  std::vector<std::unique_ptr<DeviceWords>> flags;
  for (int r = 0; r < 2; ++r) {
    flags.push_back(std::make_unique<DeviceWords>(Device::Cuda(r), 1));
  }
  for (uint32_t skip : {0u, 1u, 0u}) {
    flags[1]->Write({skip});
    for (const absl::Status& status : job.OnBoth([&](int rank) {
           job.Observe(rank, skip != 0 ? 100 : 8);
           return job.state(rank).EndStep(
               job.stream(rank), flags[static_cast<size_t>(rank)]->data());
         })) {
      ASSERT_THAT(status, IsOk());
    }
    EXPECT_EQ(job.Scale(0), 56);
    EXPECT_EQ(job.Scale(1), 56);
  }
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_THAT(job.state(rank).Check(job.stream(rank)), IsOk());
    EXPECT_EQ(job.state(rank).counters().skipped, 1);
    EXPECT_EQ(job.state(rank).step(), 3);
  }
}

TEST_P(ExchangeTest, AGraphThatIsReplayedEqualsEagerSteps) {
  TwoRanks job(DelayedRecipe("amax_history_len: 3"), GetParam());
  TwoRanks eager(DelayedRecipe("amax_history_len: 3"), GetParam());
  job.Freeze();
  eager.Freeze();
  std::vector<CudaGraphExec> graphs(2);
  std::vector<std::unique_ptr<DeviceWords>> flags;
  for (int r = 0; r < 2; ++r) {
    flags.push_back(std::make_unique<DeviceWords>(Device::Cuda(r), 1));
  }
  for (const absl::Status& status : job.OnBoth([&](int rank) {
         absl::Status captured;
         graphs[static_cast<size_t>(rank)] =
             Capture(job.cuda_stream(rank), [&] {
               captured = job.state(rank).EndStep(
                   job.stream(rank), flags[static_cast<size_t>(rank)]->data());
             });
         return captured;
       })) {
    ASSERT_THAT(status, IsOk());
  }
  std::mt19937 random(4);
  for (int step = 0; step < 100; ++step) {
    const float amax_0 = static_cast<float>(random() % 1000);
    const float amax_1 = static_cast<float>(random() % 1000);
    (void)eager.Step(amax_0, amax_1);
    for (const absl::Status& status : job.OnBoth([&](int rank) {
           job.Observe(rank, rank == 0 ? amax_0 : amax_1);
           return CudaStatus(
               cudaGraphLaunch(graphs[static_cast<size_t>(rank)].get(),
                               job.cuda_stream(rank).get()),
               "cudaGraphLaunch");
         })) {
      ASSERT_THAT(status, IsOk());
    }
    for (int rank = 0; rank < 2; ++rank) {
      ASSERT_EQ(FloatBits(job.Scale(rank)), FloatBits(eager.Scale(rank)))
          << "rank " << rank << " replay " << step;
    }
  }
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(job.state(rank).Check(job.stream(rank)), IsOk());
    EXPECT_EQ(job.state(rank).step(), 100);
  }
}

// I14: an error within the deadline, the state before the step, the observation
// kept, every later step refused at once.
TEST_P(ExchangeTest, AMissingRankEndsInDeadlineExceeded) {
  TwoRanks job(DelayedRecipe(""), GetParam(), absl::Seconds(3));
  job.Freeze();
  (void)job.Step(8, 1);
  const absl::Time begin = absl::Now();
  job.Observe(0, 100);
  ASSERT_THAT(job.state(0).EndStep(job.stream(0)), IsOk()) << "queued";
  EXPECT_THAT(job.state(0).Check(job.stream(0)),
              StatusIs(kDeadlineExceeded,
                       AllOf(HasSubstr("\"default\""), HasSubstr("within "),
                             AnyOf(HasSubstr("rank 1 of 2"),
                                   HasSubstr("NCCL collective")))));
  EXPECT_LT(absl::Now() - begin, Within(absl::Seconds(15)));
  EXPECT_EQ(job.state(0).step(), 1);
  EXPECT_EQ(job.Scale(0), 56);
  EXPECT_EQ(ReadDevice(Device::Cuda(0), job.state(0).View(job.slots()[0]).amax,
                       job.stream(0)),
            FloatBits(100));
  const absl::Time again = absl::Now();
  EXPECT_THAT(job.state(0).EndStep(job.stream(0)),
              StatusIs(kDeadlineExceeded, HasSubstr("\"default\"")));
  EXPECT_LT(absl::Now() - again, Within(absl::Seconds(1)));
  // The previous state can still be had.
  ASSERT_THAT(job.state(0).RestorePrevious(job.stream(0)), IsOk());
  EXPECT_EQ(job.state(0).step(), 0);
  EXPECT_EQ(job.Scale(0), 1);
}

TEST_P(ExchangeTest, StepsQueuedBehindAMissingRankDoNothing) {
  TwoRanks job(DelayedRecipe(""), GetParam(), absl::Seconds(2), 1500);
  job.Freeze();
  (void)job.Step(8, 1);
  for (int i = 0; i < 3; ++i) (void)job.state(0).EndStep(job.stream(0));
  EXPECT_THAT(job.state(0).Check(job.stream(0)),
              StatusIs(kDeadlineExceeded, ::testing::_));
  EXPECT_EQ(job.state(0).step(), 1);
  EXPECT_EQ(job.Scale(0), 56);
}

// Nobody waits for ever: SetStep tells, and the state can be destroyed.
TEST_P(ExchangeTest, AMissingRankHoldsUpNeitherSetStepNorTheEnd) {
  TwoRanks job(DelayedRecipe(""), GetParam(), absl::Seconds(2));
  job.Freeze();
  (void)job.Step(8, 1);
  const absl::Time begin = absl::Now();
  job.Observe(0, 100);
  ASSERT_THAT(job.state(0).EndStep(job.stream(0)), IsOk()) << "queued";
  EXPECT_THAT(job.state(0).SetStep(7),
              StatusIs(kDeadlineExceeded, HasSubstr("\"default\"")));
  EXPECT_EQ(job.state(0).step(), 1);
  job.Destroy(0);
  EXPECT_LT(absl::Now() - begin, Within(absl::Seconds(20)));
}

TEST_P(ExchangeTest, AStateEndsWhileAGraphWaitsForAMissingRank) {
  TwoRanks job(DelayedRecipe(""), GetParam(), absl::Seconds(2));
  job.Freeze();
  CudaGraphExec graph = Capture(job.cuda_stream(0), [&] {
    ASSERT_THAT(job.state(0).EndStep(job.stream(0)), IsOk());
  });
  ASSERT_EQ(cudaGraphLaunch(graph.get(), job.cuda_stream(0).get()),
            cudaSuccess);
  const absl::Time begin = absl::Now();
  job.Destroy(0);
  EXPECT_LT(absl::Now() - begin, Within(absl::Seconds(20)));
}

TEST_P(ExchangeTest, ARankThatWasRestoredAloneIsNoticed) {
  TwoRanks job(DelayedRecipe(""), GetParam());
  job.Freeze();
  (void)job.Step(8, 1);
  ASSERT_THAT(job.state(1).RestorePrevious(job.stream(1)), IsOk());
  (void)job.Step(2, 2);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(job.state(rank).Check(job.stream(rank)),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("default")));
    EXPECT_EQ(job.Scale(rank), rank == 0 ? 56 : 1);
  }
  // Back to one state: the job goes on.
  ASSERT_THAT(job.state(0).RestorePrevious(job.stream(0)), IsOk());
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_THAT(job.state(rank).ClearFlags(job.stream(rank)), IsOk());
  }
  for (const absl::Status& status : job.Step(4, 2)) {
    ASSERT_THAT(status, IsOk());
  }
  EXPECT_EQ(job.Scale(0), 112);
  EXPECT_EQ(job.Scale(1), 112);
}

// Two states on the same GPUs and communicators of their own, two streams,
// queued in opposite orders.
TEST_P(ExchangeTest, TwoStatesOnTwoStreamsDoNotWaitForEachOther) {
  TwoRanks a(DelayedRecipe(""), GetParam());
  TwoRanks b(DelayedRecipe(""), GetParam());
  a.Freeze();
  b.Freeze();
  for (int step = 0; step < 50; ++step) {
    RunRanks(2, [&](int rank) {
      TwoRanks& first = rank == 0 ? a : b;
      TwoRanks& second = rank == 0 ? b : a;
      for (TwoRanks* job : {&first, &second}) {
        job->Observe(rank, static_cast<float>(1 + rank));
        EXPECT_THAT(job->state(rank).EndStep(job->stream(rank)), IsOk());
      }
    });
  }
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(a.Scale(rank), 224);
    EXPECT_EQ(b.Scale(rank), 224);
  }
}

class ChoiceTest : public TwoGpuTest {};

TEST_F(ChoiceTest, AutoTakesTheSameOnBothRanks) {
  TwoRanks job(DelayedRecipe(""), Exchange::kAuto);
  job.Freeze();
  const std::string step_0 = job.state(0).Describe();
  const std::string step_1 = job.state(1).Describe();
  EXPECT_EQ(step_0.substr(step_0.find("  step: ")),
            step_1.substr(step_1.find("  step: ")));
  const bool can =
      job.communicator(0).device_group()->MailboxObstacle().empty();
  EXPECT_EQ(step_0.find("one kernel that exchanges") != std::string::npos, can)
      << step_0;
}

TEST_F(ChoiceTest, DifferentRecipesFailOnBothRanks) {
  TwoRanks job({DelayedRecipe("margin: 0"), DelayedRecipe("margin: 1")},
               Exchange::kAuto, absl::Seconds(20), 1);
  for (const absl::Status& status :
       job.OnBoth([&](int rank) { return job.state(rank).Freeze(); })) {
    EXPECT_THAT(status, StatusIs(kFailedPrecondition, HasSubstr("margin")));
  }
}

// Both paths through the same random steps.
TEST_F(ChoiceTest, BothPathsGiveTheSameBits) {
  TwoRanks fused(DelayedRecipe("amax_history_len: 4"), Exchange::kFused);
  TwoRanks reduced(DelayedRecipe("amax_history_len: 4"), Exchange::kAllReduce);
  fused.Freeze();
  reduced.Freeze();
  std::mt19937 random(5);
  for (int step = 0; step < 200; ++step) {
    const float amax_0 = static_cast<float>(random() % 100000) * 1e-3f;
    const float amax_1 = static_cast<float>(random() % 100000) * 1e-3f;
    (void)fused.Step(amax_0, amax_1);
    (void)reduced.Step(amax_0, amax_1);
    ASSERT_EQ(FloatBits(fused.Scale(0)), FloatBits(reduced.Scale(0))) << step;
    ASSERT_EQ(FloatBits(fused.Scale(1)), FloatBits(reduced.Scale(0))) << step;
  }
}

}  // namespace
}  // namespace scalekeeper
