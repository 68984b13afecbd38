// Recommendations: what is written is a clean recipe that loses less on steps
// that it was not chosen on.
#include "replay/recommend.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

LabeledRecipe Baseline() {
  return {"delayed_hybrid", *Recipe::Load("delayed_hybrid")};
}

absl::StatusOr<Recommendation> Recorded(bool histograms,
                                        const RecommendOptions& options = {}) {
  const std::string folder = "tests/data/traces/";
  std::vector<std::string> h;
  if (histograms) {
    h = {folder + "log2hist_rank0.csv", folder + "log2hist_rank1.csv"};
  }
  return Recommend(
      [&] {
        return RankedTrace::Open(
            {folder + "amax_rank0.csv", folder + "amax_rank1.csv"}, h);
      },
      Baseline(), options);
}

std::vector<std::string> Modules() {
  std::vector<std::string> modules;
  for (int layer = 0; layer < 8; ++layer) {
    for (const char* part : {"qkv", "proj", "fc1", "fc2"}) {
      modules.push_back(absl::StrCat("layers.", layer, ".", part));
    }
  }
  modules.push_back("head");
  return modules;
}

TEST(RecommendTest, TheRecordedRunsRecipeBeatsTheBaselineOnHeldOutSteps) {
  const auto made = Recorded(/*histograms=*/true);
  ASSERT_THAT(made, IsOk());
  EXPECT_TRUE(made->better());
  EXPECT_LT(made->recommended.held_out.loss(),
            0.6 * made->baseline.held_out.loss());
  EXPECT_GT(made->baseline.held_out.tensors, 40000);
  // It is clean, with the modules' names too.
  const auto recipe = Recipe::Parse(made->text, "recommended");
  ASSERT_THAT(recipe, IsOk());
  const auto resolved = recipe->Resolve(Modules());
  ASSERT_THAT(resolved, IsOk());
  EXPECT_TRUE(resolved->warnings().empty());
  EXPECT_THAT(made->text,
              AllOf(HasSubstr("# Recommended by `scalekeeper recommend` from "
                              "steps 0 to 999 of a run on 2 ranks."),
                    HasSubstr("held out: "), HasSubstr("delayed_hybrid: "),
                    HasSubstr("of the tensors saturate")));
}

TEST(RecommendTest, WithoutHistogramsGradStaysInE5M2) {
  const auto made = Recorded(/*histograms=*/false);
  ASSERT_THAT(made, IsOk());
  EXPECT_THAT(made->text, AllOf(HasSubstr("has no histograms"),
                                HasSubstr("grad { format: E5M2"),
                                Not(HasSubstr("grad { format: E4M3"))));
}

TEST(RecommendTest, CurrentScalingIsChosenOnlyWhereAllowed) {
  RecommendOptions options;
  options.allow_current = false;
  const auto made = Recorded(/*histograms=*/true, options);
  ASSERT_THAT(made, IsOk());
  EXPECT_THAT(made->text, Not(HasSubstr("current {")));
}

TEST(RecommendTest, AQuantizerThatJumpsEveryStepGetsARuleOfItsOwn) {
  // Its amaxes fall and come back 100-fold after more steps than any window
  // holds, so that only its own amax can scale it; the module's name has what
  // patterns take for their own.
  std::string text = "step,steady/input,jumps.+/input\n";
  for (int step = 0; step < 3000; ++step) {
    absl::StrAppend(&text, step, ",1,", step % 7 == 3 ? 100 + step : 1, "\n");
  }
  const std::string path = ::testing::TempDir() + "/jumps.csv";
  ASSERT_THAT(WriteFile(path, text), IsOk());
  const auto made =
      Recommend([&] { return RankedTrace::Open({path}, {}); }, Baseline(), {});
  ASSERT_THAT(made, IsOk());
  EXPECT_EQ(made->rules, 0u) << made->text;  // a margin is enough for it

  RecommendOptions options;
  options.worthwhile = 0;
  std::string wild = "step,steady/input,jumps.+/input\n";
  for (int step = 0; step < 3000; ++step) {
    absl::StrAppend(&wild, step, ",1,", step, "e", step / 100, "\n");
  }
  ASSERT_THAT(WriteFile(path, wild), IsOk());
  const auto ruled = Recommend([&] { return RankedTrace::Open({path}, {}); },
                               Baseline(), options);
  ASSERT_THAT(ruled, IsOk());
  EXPECT_EQ(ruled->rules, 1u) << ruled->text;
  EXPECT_THAT(ruled->text, HasSubstr("module: \"jumps\\\\.\\\\+\""));
  const auto recipe = Recipe::Parse(ruled->text, "recommended");
  ASSERT_THAT(recipe, IsOk());
  EXPECT_THAT(recipe->Resolve({"steady", "jumps.+"}), IsOk());
}

}  // namespace
}  // namespace scalekeeper
