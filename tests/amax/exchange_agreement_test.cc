// What the ranks of a group agree on before they exchange, whatever each of
// them can do.
#include "amax/exchange_agreement.h"

#include <string>
#include <vector>

#include "amax/in_process_communicator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/rank_threads.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;

ExchangeWish OnGpu(Exchange wanted, const std::string& obstacle = "") {
  ExchangeWish wish;
  wish.wanted = wanted;
  wish.on_gpu = true;
  wish.obstacle = obstacle;
  return wish;
}

ExchangeWish OnHost() {
  ExchangeWish wish;
  wish.obstacle = "the state is in host memory";
  return wish;
}

std::vector<absl::StatusOr<ExchangeChoice>> Agree(
    const std::vector<ExchangeWish>& wishes) {
  const int size = static_cast<int>(wishes.size());
  const auto group = CreateInProcessCommunicators(size);
  std::vector<absl::StatusOr<ExchangeChoice>> choices(wishes.size());
  RunRanks(size, [&](int rank) {
    const size_t r = static_cast<size_t>(rank);
    choices[r] = AgreeOnWish(group[r].get(), wishes[r]);
  });
  return choices;
}

TEST(ExchangeAgreementTest, OneKernelWhereEveryRankCan) {
  for (Exchange wanted : {Exchange::kAuto, Exchange::kFused}) {
    for (const auto& choice : Agree({OnGpu(wanted), OnGpu(wanted)})) {
      ASSERT_THAT(choice, IsOk());
      EXPECT_TRUE(choice->fused);
      EXPECT_EQ(choice->obstacle, "");
    }
  }
}

TEST(ExchangeAgreementTest, AnAllReduceThatIsAskedForHasNoObstacle) {
  for (const auto& choice : Agree({OnGpu(Exchange::kAllReduce, "no NVLink"),
                                   OnGpu(Exchange::kAllReduce)})) {
    ASSERT_THAT(choice, IsOk());
    EXPECT_FALSE(choice->fused);
    EXPECT_EQ(choice->obstacle, "");
  }
}

TEST(ExchangeAgreementTest, AnObstacleOfOneRankHoldsForAll) {
  const auto choices =
      Agree({OnGpu(Exchange::kAuto), OnGpu(Exchange::kAuto, "NCCL 1 is loaded"),
             OnGpu(Exchange::kAuto)});
  for (size_t r = 0; r < choices.size(); ++r) {
    ASSERT_THAT(choices[r], IsOk());
    EXPECT_FALSE(choices[r]->fused);
    EXPECT_EQ(choices[r]->obstacle,
              r == 1 ? "NCCL 1 is loaded" : "another rank cannot");
  }
}

TEST(ExchangeAgreementTest, OneKernelThatIsAskedForAndCannotBeIsRefused) {
  const auto choices =
      Agree({OnGpu(Exchange::kFused), OnGpu(Exchange::kFused, "no NVLink")});
  EXPECT_THAT(choices[0], StatusIs(kFailedPrecondition,
                                   HasSubstr("kFused: another rank cannot")));
  EXPECT_THAT(choices[1],
              StatusIs(kFailedPrecondition, HasSubstr("kFused: no NVLink")));
}

TEST(ExchangeAgreementTest, RanksThatAskForDifferentExchangesAreRefused) {
  for (const std::vector<ExchangeWish>& wishes :
       {std::vector<ExchangeWish>{OnGpu(Exchange::kAuto),
                                  OnGpu(Exchange::kFused)},
        {OnGpu(Exchange::kFused), OnGpu(Exchange::kAllReduce)},
        {OnGpu(Exchange::kAllReduce), OnGpu(Exchange::kAuto)}}) {
    for (const auto& choice : Agree(wishes)) {
      EXPECT_THAT(choice,
                  StatusIs(kFailedPrecondition, HasSubstr("options.exchange")));
    }
  }
}

TEST(ExchangeAgreementTest, StatesOnHostAndGpuInOneGroupAreRefused) {
  const auto choices =
      Agree({OnHost(), OnGpu(Exchange::kAuto), OnGpu(Exchange::kAuto)});
  for (size_t r = 0; r < choices.size(); ++r) {
    EXPECT_THAT(choices[r],
                StatusIs(kFailedPrecondition,
                         AllOf(HasSubstr("options.device"),
                               HasSubstr(r == 0 ? "this one in host memory"
                                                : "this one on a GPU"))));
  }
  for (const auto& choice : Agree({OnHost(), OnHost()})) {
    ASSERT_THAT(choice, IsOk());
    EXPECT_FALSE(choice->fused);
  }
}

}  // namespace
}  // namespace scalekeeper
