#include "amax/in_process_communicator.h"

#include <chrono>
#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/communicator_conformance.h"
#include "tests/testing/flaky_communicator.h"
#include "tests/testing/rank_threads.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<std::unique_ptr<Communicator>> MakeGroup(int size,
                                                     absl::Duration deadline) {
  InProcessCommunicatorOptions options;
  options.deadline = deadline;
  return CreateInProcessCommunicators(size, options);
}

INSTANTIATE_TEST_SUITE_P(
    InProcess, CommunicatorConformanceTest,
    ::testing::Values(CommunicatorGroupFactory(MakeGroup)));

absl::Status Reduce(Communicator* communicator, size_t count) {
  std::vector<uint32_t> words(count, 1);
  return communicator->AllReduceMax(absl::MakeSpan(words), Stream{});
}

TEST(InProcessCommunicatorTest, TimeoutNamesRanksSequenceAndCount) {  // I14
  const auto group = MakeGroup(4, absl::Seconds(1));
  RunRanks(4, [&](int rank) {
    EXPECT_THAT(Reduce(group[static_cast<size_t>(rank)].get(), 2), IsOk());
  });
  RunRanks(2, [&](int rank) {
    EXPECT_THAT(Reduce(group[static_cast<size_t>(rank)].get(), 17),
                StatusIs(absl::StatusCode::kDeadlineExceeded,
                         AllOf(HasSubstr("ranks 2, 3 of 4"),
                               HasSubstr("collective 1 of 17 words"),
                               HasSubstr("within 1s"))));
  });
  EXPECT_THAT(
      Reduce(group[3].get(), 17),
      StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("ranks 2, 3")))
      << "a late rank learns the first error at once";
}

TEST(InProcessCommunicatorTest, UnequalCountsFailOnEveryRankNamingBoth) {
  const auto group = MakeGroup(2, absl::Seconds(60));
  for (int round = 0; round < 2; ++round) {  // and the group stays broken
    RunRanks(2, [&](int rank) {
      EXPECT_THAT(
          Reduce(group[static_cast<size_t>(rank)].get(), rank == 0 ? 14 : 15),
          StatusIs(absl::StatusCode::kFailedPrecondition,
                   AllOf(HasSubstr("rank 0 brings 14"),
                         HasSubstr("rank 1 brings 15"))));
    });
  }
}

TEST(InProcessCommunicatorTest, ADestroyedHandleIsNoticedAtOnce) {
  auto group = MakeGroup(2, absl::Hours(1));
  std::thread leaver([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    group[1].reset();
  });
  EXPECT_THAT(Reduce(group[0].get(), 1),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("rank 1 of 2 is gone")));
  leaver.join();
}

TEST(InProcessCommunicatorTest, ACompletedCollectiveSurvivesTheLeaver) {
  for (int run = 0; run < 200; ++run) {
    auto group = MakeGroup(2, absl::Seconds(60));
    RunRanks(2, [&](int rank) {
      EXPECT_THAT(Reduce(group[static_cast<size_t>(rank)].get(), 1), IsOk());
      group[static_cast<size_t>(rank)].reset();
    });
  }
}

TEST(InProcessCommunicatorTest, WaitingRanksSleep) {
  const auto group = MakeGroup(2, absl::Milliseconds(400));
  const std::clock_t before = std::clock();
  EXPECT_THAT(Reduce(group[0].get(), 1),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("400")));
  EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 10);
}

TEST(InProcessCommunicatorTest, AnEmptyGroupHasNoHandles) {
  EXPECT_TRUE(CreateInProcessCommunicators(0).empty());
  EXPECT_TRUE(CreateInProcessCommunicators(-1).empty());
}

TEST(InProcessCommunicatorTest, WaitsForeverIfToldTo) {
  const auto group = MakeGroup(2, absl::InfiniteDuration());
  RunRanks(2, [&](int rank) {
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_THAT(Reduce(group[static_cast<size_t>(rank)].get(), 1), IsOk());
  });
}

TEST(AllGatherTest, PutsTheRanksBytesOneBehindTheOther) {
  auto ranks = CreateInProcessCommunicators(3);
  RunRanks(3, [&](int rank) {
    for (const size_t bytes : {size_t{1}, size_t{0}, size_t{5}}) {
      const std::string mine(bytes, static_cast<char>('a' + rank));
      std::string all(3 * bytes, '?');
      ASSERT_THAT(ranks[static_cast<size_t>(rank)]->AllGather(
                      mine.data(), all.data(), bytes, Stream{}),
                  IsOk());
      EXPECT_EQ(all, std::string(bytes, 'a') + std::string(bytes, 'b') +
                         std::string(bytes, 'c'));
    }
  });
}

TEST(AllGatherTest, RanksThatDoNotCallTheSameAreToldSo) {
  for (const bool other_call : {false, true}) {
    auto ranks = CreateInProcessCommunicators(2);
    RunRanks(2, [&](int rank) {
      char mine[8] = {}, all[16] = {};
      uint32_t words[4] = {};
      Communicator& own = *ranks[static_cast<size_t>(rank)];
      const absl::Status status =
          other_call && rank == 1
              ? own.AllReduceMax(absl::MakeSpan(words), Stream{})
              : own.AllGather(mine, all, rank == 0 ? 4 : 8, Stream{});
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                                   HasSubstr("rank 0 brings 4 bytes to gather, "
                                             "rank 1 brings")));
    });
  }
}

TEST(AllGatherTest, ACommunicatorNeedNotHaveIt) {
  auto ranks = CreateInProcessCommunicators(1);
  FlakyCommunicator other(ranks[0].get());
  char mine = 0, all = 0;
  EXPECT_THAT(other.AllGather(&mine, &all, 1, Stream{}),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("none")));
  EXPECT_THAT(ranks[0]->AllGather(nullptr, &all, 1, Stream{}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("null")));
}

}  // namespace
}  // namespace scalekeeper
