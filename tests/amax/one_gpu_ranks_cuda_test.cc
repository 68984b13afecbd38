// Two ranks on one GPU: the one-kernel exchange, the ways in which it is
// refused, and a rank that does not come.
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "amax/arena_view.h"
#include "amax/mailboxes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/amax/one_gpu_ranks_testing.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kDeadlineExceeded = absl::StatusCode::kDeadlineExceeded;
constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;

class LocalRanksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    EndProcessAfter(120);  // per test
    if (GpuCount() < 1) GTEST_SKIP() << "needs a GPU";
  }
};

void ExpectFrozen(LocalJob* job) {
  for (const absl::Status& status : job->Freeze()) {
    ASSERT_THAT(status, IsOk());
  }
}

// Both are queued before either is waited for.
void Step(LocalJob* job, float amax_0, float amax_1, size_t slot = 0) {
  job->Observe(0, amax_0, slot);
  job->Observe(1, amax_1, slot);
  for (int r = 0; r < 2; ++r) {
    ASSERT_THAT(job->state(r).EndStep(job->stream(r)), IsOk());
  }
}

TEST_F(LocalRanksTest, OneKernelTakesTheMaximumOverRanks) {
  LocalJob job(Exchange::kAuto, 300);
  ExpectFrozen(&job);
  EXPECT_THAT(job.state(0).Describe(), HasSubstr("one kernel that exchanges"));
  const size_t last = job.slots().size() - 1;
  for (const auto& [amax_0, amax_1, scale] :
       std::vector<std::array<float, 3>>{{1, 8, 56}, {100, 1, 4.48f}}) {
    Step(&job, amax_0, amax_1, last);
    EXPECT_EQ(job.Scale(0, last), scale);
    EXPECT_EQ(job.Scale(1, last), scale);
  }
  for (int r = 0; r < 2; ++r) {
    EXPECT_THAT(job.state(r).Check(job.stream(r)), IsOk());
    EXPECT_EQ(job.state(r).step(), 2);
  }
}

// Every time: who is missing is written before that somebody is.
TEST_F(LocalRanksTest, TheRankThatDoesNotComeIsNamed) {
  for (int time = 0; time < 20; ++time) {
    LocalJob job(Exchange::kFused, 400);
    job.pair.kernels_give_up = absl::Milliseconds(20);
    ExpectFrozen(&job);
    ASSERT_THAT(job.state(0).EndStep(job.stream(0)), IsOk()) << "queued";
    absl::Status status;
    // Asked while it runs.
    const absl::Time end = absl::Now() + Within(absl::Seconds(10));
    while (status.ok() && absl::Now() < end) {
      status = job.state(0).EndStep(job.stream(0));
    }
    EXPECT_THAT(status, StatusIs(kDeadlineExceeded,
                                 HasSubstr("rank 1 of 2 did not come")));
    EXPECT_THAT(job.state(0).Check(job.stream(0)),
                StatusIs(kDeadlineExceeded, HasSubstr("rank 1 of 2")));
    EXPECT_EQ(job.state(0).step(), 0);
  }
}

// Long before their own deadline, the threads of slots and of control words.
TEST_F(LocalRanksTest, KernelsStopWhenTheHostGivesUp) {
  LocalJob job(Exchange::kFused, 400);
  job.pair.kernels_give_up = Within(absl::Seconds(100));
  ExpectFrozen(&job);
  job.Observe(0, 8);
  ASSERT_THAT(job.state(0).EndStep(job.stream(0)), IsOk()) << "queued";
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_EQ(cudaStreamQuery(AsCudaStream(job.stream(0))), cudaErrorNotReady);
  const absl::Time begin = absl::Now();
  job.rank(0).GiveUp(absl::UnavailableError("NCCL says so"));
  EXPECT_THAT(job.state(0).Check(job.stream(0)),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("NCCL says so"),
                             Not(HasSubstr("did not come")))));
  EXPECT_LT(absl::Now() - begin, Within(absl::Seconds(5)));
  EXPECT_EQ(job.state(0).step(), 0);
  EXPECT_EQ(ReadDevice(Device::Cuda(0), job.state(0).View(job.slots()[0]).amax,
                       job.stream(0)),
            FloatBits(8));
}

TEST_F(LocalRanksTest, AStateEndsAlthoughARankDoesNotCome) {
  LocalJob job(Exchange::kFused, 400);
  job.pair.kernels_give_up = Within(absl::Seconds(100));
  job.pair.host_gives_up = Within(absl::Seconds(1));
  ExpectFrozen(&job);
  ASSERT_THAT(job.state(0).EndStep(job.stream(0)), IsOk()) << "queued";
  const absl::Time begin = absl::Now();
  job.Destroy(0);
  EXPECT_LT(absl::Now() - begin, Within(absl::Seconds(8)));
  EXPECT_TRUE(job.rank(0).abandoned) << "giving mailboxes back is collective";
  job.Destroy(1);
  EXPECT_FALSE(job.rank(1).abandoned) << "as far as it knows all is well";
}

TEST_F(LocalRanksTest, SetStepTellsThatARankDoesNotCome) {
  LocalJob job(Exchange::kFused, 400);
  job.pair.kernels_give_up = Within(absl::Seconds(100));
  job.pair.host_gives_up = Within(absl::Seconds(1));
  ExpectFrozen(&job);
  ASSERT_THAT(job.state(0).EndStep(job.stream(0)), IsOk()) << "queued";
  const absl::Time begin = absl::Now();
  EXPECT_THAT(job.state(0).SetStep(5),
              StatusIs(kDeadlineExceeded, HasSubstr("the host gave up")));
  EXPECT_LT(absl::Now() - begin, Within(absl::Seconds(8)));
  EXPECT_EQ(job.state(0).step(), 0);
}

// The first block gets what it waits for and updates its slots; the others do
// not.
TEST_F(LocalRanksTest, ATornStepIsUndone) {
  LocalJob job(Exchange::kFused, 200);
  job.pair.kernels_give_up = Within(absl::Seconds(3));
  ExpectFrozen(&job);
  for (size_t slot : {size_t{0}, job.slots().size() - 1}) {
    job.Observe(0, 8, slot);
    job.Observe(1, 8, slot);
  }
  Step(&job, 8, 8);
  ASSERT_EQ(job.Scale(0), 56);
  const size_t last = job.slots().size() - 1;
  job.Observe(0, 64, 0);
  job.Observe(0, 64, last);
  ASSERT_THAT(job.state(0).EndStep(job.stream(0)), IsOk()) << "queued";
  absl::SleepFor(Within(absl::Milliseconds(300)));  // it has sent its lines
  // Rank 1's answer: the same lines, as far as they go. The second exchange is
  // of even parity.
  constexpr size_t kLine = 2;  // words
  const auto lines = [&](size_t owner, size_t sender) {
    return job.pair.mailboxes[owner]->data() +
           sender * LocalPair::kCapacity * kLine;
  };
  const size_t members = 200 * 3;
  const CudaStream beside = ValueOrDie(CreateCudaStream());
  for (const auto& [first, count] :
       std::vector<std::pair<size_t, size_t>>{{0, kBlockSlots}, {members, 3}}) {
    DieUnlessOk(CudaStatus(cudaMemcpyAsync(lines(0, 1) + first * kLine,
                                           lines(1, 0) + first * kLine,
                                           count * kLine * sizeof(uint32_t),
                                           cudaMemcpyDefault, beside.get()),
                           "cudaMemcpyAsync"));
  }
  EXPECT_THAT(job.state(0).Check(job.stream(0)),
              StatusIs(kDeadlineExceeded, HasSubstr("rank 1 of 2")));
  EXPECT_EQ(job.state(0).step(), 1);
  EXPECT_EQ(job.Scale(0, 0), 56) << "of the block that was updated";
  EXPECT_EQ(job.Scale(0, last), 56);
  for (size_t slot : {size_t{0}, last}) {
    EXPECT_EQ(
        ReadDevice(Device::Cuda(0), job.state(0).View(job.slots()[slot]).amax,
                   job.stream(0)),
        FloatBits(64));
  }
}

TEST_F(LocalRanksTest, AnObstacleOfOneRankIsThatOfBoth) {
  LocalJob job(Exchange::kAuto, 1);
  job.rank(1).obstacle = "NCCL 1 is loaded";
  ExpectFrozen(&job);
  EXPECT_THAT(job.state(0).Describe(),
              HasSubstr("(not one kernel: another rank cannot)"));
  EXPECT_THAT(job.state(1).Describe(),
              HasSubstr("(not one kernel: NCCL 1 is loaded)"));

  LocalJob forced(Exchange::kFused, 1);
  forced.rank(1).obstacle = "NCCL 1 is loaded";
  for (const absl::Status& status : forced.Freeze()) {
    EXPECT_THAT(status, StatusIs(kFailedPrecondition, HasSubstr("got kFused")));
  }
}

// More blocks than run at once: two such states could wait for each other.
TEST_F(LocalRanksTest, OneKernelIsNotTakenWhereItsBlocksDoNotFit) {
  LocalJob job(Exchange::kAuto, 65000);  // 195,000 slots
  ExpectFrozen(&job);
  for (int r = 0; r < 2; ++r) {
    EXPECT_THAT(job.state(r).Describe(),
                HasSubstr("(not one kernel: 195000 slots, want at most "));
  }
  LocalJob forced(Exchange::kFused, 65000);
  for (const absl::Status& status : forced.Freeze()) {
    EXPECT_THAT(status,
                StatusIs(kFailedPrecondition,
                         HasSubstr("got kFused: 195000 slots, want at most ")));
  }
}

TEST_F(LocalRanksTest, StatesOnHostAndGpuInOneGroupAreRefused) {
  LocalJob job(Exchange::kAuto, 1, {Device::Host(), Device::Cuda(0)});
  for (const absl::Status& status : job.Freeze()) {
    EXPECT_THAT(status,
                StatusIs(kFailedPrecondition, HasSubstr("options.device")));
  }
}

}  // namespace
}  // namespace scalekeeper
