#include "amax/rendezvous.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/free_port.h"
#include "tests/testing/rank_threads.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

MeetingPoint Point(int rank, int size, int port) {
  MeetingPoint point;
  point.rank = rank;
  point.size = size;
  point.address = "127.0.0.1";
  point.port = port;
  return point;
}

TEST(RendezvousTest, EveryRankGetsTheBytesOfRank0) {
  const int port = FreePort();
  for (int round = 0; round < 3; ++round) {  // the port can be used again
    std::vector<std::string> bytes(5, std::string(128, 'x'));
    bytes[0] = std::string(127, '\0') + static_cast<char>('a' + round);
    RunRanks(5, [&](int rank) {
      if (rank == 0) absl::SleepFor(absl::Milliseconds(100));  // comes last
      EXPECT_THAT(ShareFromRank0(Point(rank, 5, port), absl::Seconds(20),
                                 &bytes[static_cast<size_t>(rank)]),
                  IsOk());
    });
    for (const std::string& rank : bytes) EXPECT_EQ(rank, bytes[0]);
  }
}

TEST(RendezvousTest, ADeadlineMayBeInfinite) {
  const int port = FreePort();
  std::vector<std::string> bytes = {"id0", "xxx"};
  RunRanks(2, [&](int rank) {
    EXPECT_THAT(ShareFromRank0(Point(rank, 2, port), absl::InfiniteDuration(),
                               &bytes[static_cast<size_t>(rank)]),
                IsOk());
  });
  EXPECT_EQ(bytes[1], "id0");
}

TEST(RendezvousTest, AloneThereIsNobodyToWaitFor) {
  std::string bytes = "id";
  EXPECT_THAT(
      ShareFromRank0(Point(0, 1, FreePort()), absl::Seconds(20), &bytes),
      IsOk());
}

TEST(RendezvousTest, MissingRanksAreNamed) {
  const int port = FreePort();
  RunRanks(2, [&](int rank) {
    std::string bytes = "id";
    const absl::Status status = ShareFromRank0(
        Point(rank == 0 ? 0 : 2, 4, port), absl::Seconds(1), &bytes);
    if (rank == 0) {
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kDeadlineExceeded,
                                   AllOf(HasSubstr("ranks 1, 3 of 4"),
                                         HasSubstr(std::to_string(port)),
                                         HasSubstr("within 1s"))));
    } else {
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable,
                                   HasSubstr("rank 2: rank 0 at 127.0.0.1")));
    }
  });
}

TEST(RendezvousTest, AMissingRank0IsNamed) {
  std::string bytes = "id";
  EXPECT_THAT(
      ShareFromRank0(Point(1, 2, FreePort()), absl::Milliseconds(300), &bytes),
      StatusIs(absl::StatusCode::kUnavailable,
               HasSubstr("did not answer within 300ms")));
}

TEST(RendezvousTest, RanksOfAnotherJobAreRefused) {
  const int port = FreePort();
  RunRanks(2, [&](int rank) {
    std::string bytes = "id";
    const absl::Status status = ShareFromRank0(
        Point(rank, rank == 0 ? 2 : 3, port), absl::Seconds(10), &bytes);
    if (rank == 0) {
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                                   HasSubstr("rank 1 of 3")));
    } else {
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable,
                                   HasSubstr("missing or wrong")));
    }
  });
}

TEST(RendezvousTest, APortInUseIsNamed) {
  const int fd = ::socket(AF_INET6, SOCK_STREAM, 0);
  ASSERT_GE(fd, 0);
  sockaddr_in6 address = {};
  address.sin6_family = AF_INET6;
  socklen_t length = sizeof(address);
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(::listen(fd, 1), 0);
  ASSERT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length),
            0);
  std::string bytes = "id";
  const int port = ntohs(address.sin6_port);
  EXPECT_THAT(ShareFromRank0(Point(0, 2, port), absl::Seconds(1), &bytes),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("port " + std::to_string(port))));
  ::close(fd);
}

TEST(ExchangeTest, EveryRankGetsTheBytesOfAll) {
  const int port = FreePort();
  char directory[] = "/tmp/scalekeeper.XXXXXX";
  ASSERT_NE(::mkdtemp(directory), nullptr);
  RunRanks(4, [&](int rank) {
    const std::string mine(static_cast<size_t>(rank) * 1000,
                           static_cast<char>('a' + rank));
    const auto all =
        ::testing::ElementsAre("", std::string(1000, 'b'),
                               std::string(2000, 'c'), std::string(3000, 'd'));
    EXPECT_THAT(
        ExchangeThroughRank0(Point(rank, 4, port), absl::Seconds(20), mine),
        IsOkAndHolds(all));
    EXPECT_THAT(
        ExchangeThroughFiles(directory, "x", rank, 4, absl::Seconds(20), mine),
        IsOkAndHolds(all));
  });
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(::unlink((directory + ("/x." + std::to_string(rank))).c_str()),
              0);
  }
  EXPECT_EQ(::rmdir(directory), 0) << "no draft is left";
}

TEST(ExchangeTest, ARankThatComesForSomethingElseDoesNotCount) {
  const int port = FreePort();
  RunRanks(2, [&](int rank) {
    if (rank == 0) {
      EXPECT_THAT(
          ExchangeThroughRank0(Point(0, 2, port), absl::Seconds(1), "mine"),
          StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("rank 1")));
    } else {
      std::string bytes = "mine";
      EXPECT_THAT(ShareFromRank0(Point(1, 2, port), absl::Seconds(1), &bytes),
                  StatusIs(absl::StatusCode::kUnavailable,
                           HasSubstr("ended the connection")));
    }
  });
}

TEST(LocalAddressTest, IsTheOneTowardsTheMeetingPoint) {
  EXPECT_THAT(LocalAddressTowards(Point(1, 2, 80)), IsOkAndHolds("127.0.0.1"));
  MeetingPoint nowhere = Point(1, 2, 80);
  nowhere.address = "no such host";
  EXPECT_THAT(
      LocalAddressTowards(nowhere),
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("\"no such host\"")));
}

}  // namespace
}  // namespace scalekeeper
