#include "gemm/plan_file.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::HasSubstr;

const ChipIdentity kChip = {"NVIDIA H200", 132, 130100};

std::vector<PlanRecord> TwoPlans() {
  std::vector<PlanRecord> records(2);
  records[0].key.m = 8192;
  records[0].key.bias_type = MatmulPlanKey::kNoBias;
  records[0].algorithm = {0xFFFFFFFFFFFFFFFFu, 1, 2, 3, 4, 5, 6, 7};
  records[1].key.m = 16;
  records[1].key.flags = MatmulPlanKey::kScaled | MatmulPlanKey::kFastAccum;
  return records;
}

TEST(PlanFileTest, ReadsBackWhatItPrinted) {
  const std::string text = PrintPlans(kChip, TwoPlans());
  const auto parsed = ParsePlans(text, kChip);
  ASSERT_THAT(parsed, IsOk());
  ASSERT_EQ(parsed->size(), 2u);
  // Sorted by key.
  EXPECT_EQ((*parsed)[0].key, TwoPlans()[1].key);
  EXPECT_EQ((*parsed)[1].key, TwoPlans()[0].key);
  EXPECT_EQ((*parsed)[1].algorithm, TwoPlans()[0].algorithm);
  EXPECT_EQ(PrintPlans(kChip, *parsed), text);
}

TEST(PlanFileTest, NoPlansIsAFileToo) {
  const auto parsed = ParsePlans(PrintPlans(kChip, {}), kChip);
  ASSERT_THAT(parsed, IsOk());
  EXPECT_TRUE(parsed->empty());
}

TEST(PlanFileTest, RefusesAnotherChipOrVersion) {
  const std::string text = PrintPlans(kChip, TwoPlans());
  EXPECT_THAT(ParsePlans(text, {"NVIDIA H100", 132, 130100}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("made for chip 'NVIDIA H200', this device "
                                 "has 'NVIDIA H100'")));
  EXPECT_THAT(ParsePlans(text, {"NVIDIA H200", 66, 130100}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("multiprocessor count '132'")));
  EXPECT_THAT(ParsePlans(text, {"NVIDIA H200", 132, 120805}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("cuBLASLt version '130100'")));
  EXPECT_THAT(
      ParsePlans(absl::StrReplaceAll(text, {{"plans 2", "plans 3"}}), kChip),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               HasSubstr("format version '3'")));
}

TEST(PlanFileTest, RefusesADamagedFile) {
  const std::string text = PrintPlans(kChip, TwoPlans());
  EXPECT_THAT(
      ParsePlans("", kChip),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("line 1")));
  EXPECT_THAT(
      ParsePlans("something else\n", kChip),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("something")));
  // Cut off at any byte: never accepted.
  for (size_t length = 0; length + 1 < text.size(); ++length) {
    EXPECT_FALSE(ParsePlans(text.substr(0, length), kChip).ok()) << length;
  }
  // A changed digit of an algorithm.
  EXPECT_THAT(
      ParsePlans(absl::StrReplaceAll(text, {{"ffffffff", "fffffffe"}}), kChip),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("checksum")));
}

TEST(PlanFileTest, FilesAreWrittenWholeAndErrorsNameThePath) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/plans.txt");
  ASSERT_THAT(WritePlanFile(path, "first"), IsOk());
  ASSERT_THAT(WritePlanFile(path, "second"), IsOk());
  EXPECT_THAT(ReadPlanFile(path), IsOkAndHolds(std::string("second")));
  EXPECT_THAT(ReadPlanFile(path + ".none"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(".none")));
  EXPECT_THAT(WritePlanFile("/nonexistent/plans.txt", "x"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("/nonexistent/plans.txt")));
}

}  // namespace
}  // namespace scalekeeper
