#include "amax/gloo_communicator.h"

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/amax/gloo_testing.h"
#include "tests/amax/job_testing.h"
#include "tests/testing/communicator_conformance.h"
#include "tests/testing/free_port.h"
#include "tests/testing/rank_threads.h"
#include "tests/testing/status_matchers.h"

// Gloo keeps what getaddrinfo gave when it cannot use an address.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:gloo::transport::tcp::CreateDeviceAttr\n";
}

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

INSTANTIATE_TEST_SUITE_P(
    Gloo, CommunicatorConformanceTest,
    ::testing::Values(CommunicatorGroupFactory(MakeGlooGroup)));

absl::Status Reduce(Communicator& communicator, size_t count) {
  std::vector<uint32_t> words(count, 1);
  return communicator.AllReduceMax(absl::MakeSpan(words), Stream{});
}

TEST(GlooCommunicatorTest, TimeoutNamesGroupRanksCollectiveAndCount) {  // I14
  const auto group = MakeGlooGroup(4, absl::Seconds(1));
  RunRanks(4, [&](int rank) {
    EXPECT_THAT(Reduce(*group[static_cast<size_t>(rank)], 2), IsOk());
  });
  RunRanks(2, [&](int rank) {
    EXPECT_THAT(Reduce(*group[static_cast<size_t>(rank)], 17),
                StatusIs(absl::StatusCode::kDeadlineExceeded,
                         AllOf(HasSubstr("gloo group \"world\""),
                               HasSubstr("ranks 2, 3 of 4"),
                               HasSubstr("collective 1 of 17 words"),
                               HasSubstr("within 1s"))));
  });
  EXPECT_THAT(Reduce(*group[3], 17),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("ranks 2, 3 of 4")))
      << "a late rank learns the first error";
}

TEST(GlooCommunicatorTest, UnequalCallsFailOnEveryRankNamingBoth) {
  for (const size_t more : {size_t{15}, size_t{5000}}) {
    const auto group = MakeGlooGroup(3, absl::Seconds(60));
    for (int round = 0; round < 2; ++round) {  // and the group stays broken
      RunRanks(3, [&](int rank) {
        EXPECT_THAT(
            Reduce(*group[static_cast<size_t>(rank)], rank == 1 ? more : 14),
            StatusIs(absl::StatusCode::kFailedPrecondition,
                     AllOf(HasSubstr("rank 0 brings 14"),
                           HasSubstr("rank 1 brings " + std::to_string(more) +
                                     " words"))));
      });
    }
  }
  const auto group = MakeGlooGroup(2, absl::Seconds(60));
  RunRanks(2, [&](int rank) {
    Communicator& own = *group[static_cast<size_t>(rank)];
    char mine[4] = {}, all[8] = {};
    EXPECT_THAT(
        rank == 0 ? own.AllGather(mine, all, 4, Stream{}) : Reduce(own, 1),
        StatusIs(absl::StatusCode::kFailedPrecondition,
                 HasSubstr("rank 0 brings 4 bytes to gather, rank 1 "
                           "brings 1 words")));
  });
}

TEST(GlooCommunicatorTest, ADestroyedHandleIsNoticedAtOnce) {
  auto group = MakeGlooGroup(3, absl::Hours(1));
  std::thread leaver([&] {
    absl::SleepFor(absl::Milliseconds(50));
    group[1].reset();
  });
  // Rank 2 comes when rank 0 has given up, and is told so.
  for (const size_t rank : {0, 2}) {
    EXPECT_THAT(Reduce(*group[rank], 1),
                StatusIs(absl::StatusCode::kUnavailable,
                         AllOf(HasSubstr("\"world\", collective 0 of 1 words"),
                               HasSubstr("rank 1 of 3 is gone"))));
  }
  leaver.join();
}

TEST(GlooCommunicatorTest, ACompletedCollectiveSurvivesTheLeaver) {
  for (int run = 0; run < 20; ++run) {
    auto group = MakeGlooGroup(3, absl::Seconds(60));
    RunRanks(3, [&](int rank) {
      std::unique_ptr<Communicator>& own = group[static_cast<size_t>(rank)];
      EXPECT_THAT(Reduce(*own, run % 2 == 0 ? 1 : 3000), IsOk());
      own.reset();
    });
  }
}

TEST(GlooCommunicatorTest, MessagesOfAnySizeAreReduced) {
  const auto group = MakeGlooGroup(3, absl::Seconds(60));
  RunRanks(3, [&](int rank) {
    // About what fits into the first message, and much more.
    for (const uint32_t count : {1017u, 1018u, 1019u, 200'000u, 5u}) {
      std::vector<uint32_t> words(count);
      for (uint32_t i = 0; i < count; ++i) {
        words[i] = i * 3 + (i + static_cast<uint32_t>(rank)) % 3;
      }
      ASSERT_THAT(group[static_cast<size_t>(rank)]->AllReduceMax(
                      absl::MakeSpan(words), Stream{}),
                  IsOk());
      for (uint32_t i = 0; i < count; ++i) ASSERT_EQ(words[i], i * 3 + 2);
    }
  });
}

TEST(GlooCommunicatorTest, GathersTheRanksBytesOneBehindTheOther) {
  const auto group = MakeGlooGroup(3, absl::Seconds(60));
  RunRanks(3, [&](int rank) {
    for (const size_t bytes : {size_t{1}, size_t{0}, size_t{5001}}) {
      const std::string mine(bytes, static_cast<char>('a' + rank));
      std::string all(3 * bytes, '?');
      ASSERT_THAT(group[static_cast<size_t>(rank)]->AllGather(
                      mine.data(), all.data(), bytes, Stream{}),
                  IsOk());
      EXPECT_EQ(all, std::string(bytes, 'a') + std::string(bytes, 'b') +
                         std::string(bytes, 'c'));
    }
  });
  char all = 0;
  EXPECT_THAT(group[0]->AllGather(nullptr, &all, 1, Stream{}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("null")));
}

TEST(GlooCommunicatorTest, ScalesOfAStateComeFromTheMaximumOverRanks) {
  const auto group = MakeGlooGroup(2, absl::Seconds(60));
  RunRanks(2, [&](int rank) {
    RecipeStateOptions options;
    options.groups["default"] = group[static_cast<size_t>(rank)].get();
    OneModule m = FrozenModule(DelayedRecipe(""), options);
    EXPECT_THAT(m.Step(rank == 0 ? 1 : 8), IsOk());
    EXPECT_EQ(m.Scale(), 56);
  });
}

TEST(GlooCreationTest, RanksMeetAtAPort) {
  const int port = FreePort();
  for (int round = 0; round < 2; ++round) {  // two groups, one port
    RunRanks(3, [&](int rank) {
      MeetingPoint point;
      point.rank = rank;
      point.size = 3;
      point.address = "localhost";
      point.port = port;
      GlooCommunicatorOptions options;
      auto made = CreateGlooCommunicator(point, options);
      ASSERT_THAT(made, IsOk());
      EXPECT_EQ((*made)->rank(), rank);
      EXPECT_EQ((*made)->size(), 3);
      EXPECT_THAT(Reduce(**made, 3), IsOk());
    });
  }
}

TEST(GlooCreationTest, TheLaunchersVariablesSayWhere) {
  ASSERT_EQ(::unsetenv("RANK"), 0);
  EXPECT_THAT(CreateGlooCommunicatorFromLauncher(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("not set")));
  ASSERT_EQ(::setenv("WORLD_SIZE", "1", 1), 0);
  ASSERT_EQ(::setenv("RANK", "1", 1), 0);
  EXPECT_THAT(CreateGlooCommunicatorFromLauncher(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("RANK: got \"1\", want 0..0")));
  ASSERT_EQ(::setenv("RANK", "0", 1), 0);
  ASSERT_EQ(::setenv("MASTER_ADDR", "127.0.0.1", 1), 0);
  ASSERT_EQ(::setenv("MASTER_PORT", std::to_string(FreePort()).c_str(), 1), 0);
  auto alone = CreateGlooCommunicatorFromLauncher();
  ASSERT_THAT(alone, IsOk());
  EXPECT_THAT(Reduce(**alone, 3), IsOk());
}

TEST(GlooCreationTest, ARankThatDoesNotComeIsNamed) {
  const TemporaryDirectory directory;
  GlooCommunicatorOptions options = LocalGloo(absl::Seconds(60));
  options.meeting_deadline = absl::Milliseconds(200);
  EXPECT_THAT(
      CreateGlooCommunicatorFromFiles(directory.path(), 0, 3, options),
      StatusIs(absl::StatusCode::kDeadlineExceeded,
               AllOf(HasSubstr("gloo group \"world\", rank 0"),
                     HasSubstr("ranks 1, 2 of 3"), HasSubstr("200ms"))));
  EXPECT_THAT(CreateGlooCommunicatorFromFiles(directory.path(), 0, 3, options),
              StatusIs(absl::StatusCode::kAlreadyExists,
                       AllOf(HasSubstr("world.0"), HasSubstr("of this job"))));
  EXPECT_THAT(CreateGlooCommunicatorFromFiles(directory.path() + "/none", 0, 3,
                                              options),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("/none/")));
}

TEST(GlooCreationTest, WrongOptionsAreNamed) {
  GlooCommunicatorOptions options = LocalGloo(absl::Seconds(10));
  options.name = "a/b";
  EXPECT_THAT(CreateGlooCommunicatorFromFiles("/tmp", 0, 2, options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("options.name: got \"a/b\"")));
  options = LocalGloo(absl::ZeroDuration());
  EXPECT_THAT(CreateGlooCommunicatorFromFiles("/tmp", 0, 2, options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("options.deadline: got 0, want > 0")));
  options = LocalGloo(absl::Seconds(10));
  options.meeting_deadline = absl::Seconds(-1);
  EXPECT_THAT(CreateGlooCommunicatorFromFiles("/tmp", 0, 2, options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("options.meeting_deadline: got -1s")));
  options = LocalGloo(absl::Seconds(10));
  EXPECT_THAT(CreateGlooCommunicatorFromFiles("/tmp", 2, 2, options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("rank: got 2 of 2")));
  options.address = "192.0.2.1";  // nobody's
  EXPECT_THAT(CreateGlooCommunicatorFromFiles("/tmp", 0, 2, options),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("address \"192.0.2.1\"")));
}

}  // namespace
}  // namespace scalekeeper
