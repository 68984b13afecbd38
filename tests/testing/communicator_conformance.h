// What every Communicator must do; run it on each implementation.
//
// An implementation defines a factory of groups and instantiates the suite:
//   INSTANTIATE_TEST_SUITE_P(InProcess, CommunicatorConformanceTest,
//                            ::testing::Values(MakeInProcessGroup));
// The words are on the host; an implementation for device memory wraps its
// communicator into one that copies them there and back.
#ifndef SCALEKEEPER_TESTS_TESTING_COMMUNICATOR_CONFORMANCE_H_
#define SCALEKEEPER_TESTS_TESTING_COMMUNICATOR_CONFORMANCE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "amax/communicator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/rank_threads.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {

// (size, deadline) -> one communicator per rank.
using CommunicatorGroupFactory =
    std::function<std::vector<std::unique_ptr<Communicator>>(int,
                                                             absl::Duration)>;

class CommunicatorConformanceTest
    : public ::testing::TestWithParam<CommunicatorGroupFactory> {};

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CommunicatorConformanceTest);

TEST_P(CommunicatorConformanceTest, KnowsRankAndSize) {
  const auto group = GetParam()(3, absl::Seconds(60));
  ASSERT_EQ(group.size(), 3u);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(group[static_cast<size_t>(rank)]->rank(), rank);
    EXPECT_EQ(group[static_cast<size_t>(rank)]->size(), 3);
  }
}

// The maximum is that of uint32: NaN and the sign bit are values like others.
TEST_P(CommunicatorConformanceTest, ReducesElementWiseOnEveryRank) {  // I7
  for (int size : {1, 2, 4}) {
    const auto group = GetParam()(size, absl::Seconds(60));
    RunRanks(size, [&](int rank) {
      for (uint32_t count : {1u, 0u, 7u, 1000u, 3u}) {
        std::vector<uint32_t> words(count);
        for (uint32_t i = 0; i < count; ++i) {
          words[i] = (i + static_cast<uint32_t>(rank)) % 4 == 0
                         ? 0x7FC00000u + i
                         : i * 10 + static_cast<uint32_t>(rank);
        }
        if (count > 2 && rank == size - 1) words[2] = 0xFFFFFFFFu;
        ASSERT_THAT(group[static_cast<size_t>(rank)]->AllReduceMax(
                        absl::MakeSpan(words), Stream{}),
                    IsOk());
        for (uint32_t i = 0; i < count; ++i) {
          uint32_t want = i * 10 + static_cast<uint32_t>(size - 1);
          for (uint32_t r = 0; r < static_cast<uint32_t>(size); ++r) {
            if ((i + r) % 4 == 0) want = 0x7FC00000u + i;
          }
          if (count > 2 && i == 2) want = 0xFFFFFFFFu;
          ASSERT_EQ(words[i], want) << "rank " << rank << " word " << i;
        }
      }
    });
  }
}

TEST_P(CommunicatorConformanceTest, ManyCollectivesInARowStayInStep) {
  const auto group = GetParam()(3, absl::Seconds(60));
  RunRanks(3, [&](int rank) {
    for (uint32_t i = 0; i < 500; ++i) {
      uint32_t word = i * 3 + static_cast<uint32_t>(rank);
      ASSERT_THAT(group[static_cast<size_t>(rank)]->AllReduceMax(
                      absl::MakeSpan(&word, 1), Stream{}),
                  IsOk());
      ASSERT_EQ(word, i * 3 + 2);
    }
  });
}

// I14: an error after the set time, on those that waited, on those that come
// late and on every later call; the data is as it was.
TEST_P(CommunicatorConformanceTest, AMissingRankEndsInDeadlineExceeded) {
  const auto group = GetParam()(3, absl::Milliseconds(300));
  RunRanks(2, [&](int rank) {
    uint32_t word = 40 + static_cast<uint32_t>(rank);
    EXPECT_THAT(group[static_cast<size_t>(rank)]->AllReduceMax(
                    absl::MakeSpan(&word, 1), Stream{}),
                StatusIs(absl::StatusCode::kDeadlineExceeded, ::testing::_));
    EXPECT_EQ(word, 40 + static_cast<uint32_t>(rank));
  });
  RunRanks(3, [&](int rank) {
    uint32_t word = 1;
    EXPECT_THAT(group[static_cast<size_t>(rank)]->AllReduceMax(
                    absl::MakeSpan(&word, 1), Stream{}),
                StatusIs(absl::StatusCode::kDeadlineExceeded, ::testing::_));
  });
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TESTS_TESTING_COMMUNICATOR_CONFORMANCE_H_
