#include "amax/agreement.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "amax/in_process_communicator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/rank_threads.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

AgreementTable Table(int slots, const std::string& recipe = "margin: 1\n") {
  AgreementTable table;
  for (int i = 0; i < slots; ++i) {
    table.slots.push_back({absl::StrCat("s", i), "delayed"});
  }
  table.recipe = recipe;
  table.recipe_fingerprint = absl::StrCat("f", recipe.size());
  return table;
}

TEST(AgreementTest, EqualTablesHaveNoDifference) {
  EXPECT_EQ(DescribeDifference(Table(3), Table(3), 1), "");
}

TEST(AgreementTest, LongListsAreCut) {
  EXPECT_THAT(DescribeDifference(Table(100000), Table(2), 5),
              AllOf(HasSubstr("rank 5 lacks \"s2\", \"s3\""),
                    HasSubstr("and 99988 more"), Not(HasSubstr("\"s12\""))));
}

TEST(AgreementTest, RecipeLinesThatOnlyOneSideHas) {
  EXPECT_THAT(
      DescribeDifference(Table(1, "a: 1\nb: 2\nb: 2\n"), Table(1, "b: 2\n"), 1),
      AllOf(HasSubstr("only on rank 0: \"a: 1\", \"b: 2\""),
            HasSubstr("fingerprint f15 on rank 0"),
            Not(HasSubstr("only on rank 1"))));
}

TEST(AgreementTest, HashTellsBoundariesApart) {
  EXPECT_NE(HashBytes(HashBytes(0, "ab"), "c"),
            HashBytes(HashBytes(0, "a"), "bc"));
  EXPECT_NE(HashBytes(0, ""), HashBytes(0, absl::string_view("\0", 1)));
  EXPECT_NE(HashBytes(0, "12345678a"), HashBytes(0, "12345678b"));
}

TEST(AgreementTest, LargeTablesTravelWithinSeconds) {
  auto group = CreateInProcessCommunicators(3);
  RunRanks(3, [&](int rank) {
    EXPECT_THAT(AgreeOnTable(group[static_cast<size_t>(rank)].get(), Stream{},
                             absl::OkStatus(), rank == 1 ? 1 : 2,
                             [&] { return Table(rank == 1 ? 49999 : 50000); }),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("rank 1 lacks \"s49999\"")));
  });
}

TEST(AgreementTest, TheLowestRanksErrorIsShared) {
  auto group = CreateInProcessCommunicators(4);
  RunRanks(4, [&](int rank) {
    const absl::Status local = rank == 2
                                   ? absl::NotFoundError("two\twith a tab")
                               : rank == 3 ? absl::InternalError("three")
                                           : absl::OkStatus();
    const absl::Status status =
        AgreeOnTable(group[static_cast<size_t>(rank)].get(), Stream{}, local, 7,
                     [] { return AgreementTable(); });
    if (rank == 2) {
      EXPECT_EQ(status, local);
    } else if (rank == 3) {
      EXPECT_EQ(status, local) << "its own error is nearer to it";
    } else {
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kNotFound,
                                   "rank 2: two\twith a tab"));
    }
  });
}

}  // namespace
}  // namespace scalekeeper
