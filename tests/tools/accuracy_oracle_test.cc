// Every number of docs/accuracy.md, and every figure of the library behind it,
// against an oracle that shares no code with it.
#include "tests/tools/accuracy_oracle.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "recipe/recipe.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/data_file.h"
#include "tools/accuracy.h"
#include "tools/load_recipe.h"
#include "tools/tensor_job.h"

namespace scalekeeper {
namespace {

using ::testing::UnorderedElementsAreArray;

// The cells of a line of a Markdown table, without those before and behind it.
std::vector<std::string> CellsOfLine(absl::string_view line) {
  const std::vector<absl::string_view> cells = absl::StrSplit(line, '|');
  std::vector<std::string> inner;
  for (size_t i = 1; i + 1 < cells.size(); ++i) {
    inner.emplace_back(absl::StripAsciiWhitespace(cells[i]));
  }
  return inner;
}

TEST(AccuracyOracleTest, KnowsEveryPreset) {
  EXPECT_THAT(Recipe::PresetNames(),
              UnorderedElementsAreArray(oracle::Presets()));
}

TEST(AccuracyOracleTest, EveryNumberOfTheDocument) {
  // Preset and tensor -> their cells, one per table.
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> found;
  const std::string document = ValueOrDie(ReadFile("docs/accuracy.md"));
  std::vector<std::string> titles;
  for (const absl::string_view line : absl::StrSplit(document, '\n')) {
    const std::vector<std::string> cells = CellsOfLine(line);
    if (absl::StartsWith(line, "| recipe |")) titles = cells;
    if (!absl::StartsWith(line, "| `")) continue;
    ASSERT_EQ(cells.size(), titles.size()) << line;
    const std::string preset = cells[0].substr(1, cells[0].size() - 2);
    for (size_t i = 1; i < cells.size(); ++i) {
      found[{preset, titles[i]}].push_back(cells[i]);
    }
  }
  size_t numbers = 0;
  for (const oracle::RealTensor& tensor : oracle::RealTensors()) {
    const std::string bytes = ReadDataFile("tensors/" + tensor.file());
    for (const std::string& preset : oracle::Presets()) {
      const std::vector<std::string> want =
          oracle::CellsOf(oracle::LossesOf(preset, tensor, bytes));
      EXPECT_EQ((found[{preset, tensor.title()}]), want)
          << preset << ", " << tensor.title();
      numbers += want.size();
    }
  }
  EXPECT_EQ(numbers, 12u * 4 * 5);
  EXPECT_EQ(found.size(), 12u * 4) << "rows or columns that nobody checked";
}

void ExpectLoss(const std::optional<CopyAccuracy>& got,
                const std::optional<oracle::Loss>& want) {
  ASSERT_EQ(got.has_value(), want.has_value());
  if (!got) return;
  // Sums of the same numbers in another order; float32 butterflies against a
  // matrix of doubles where there is an inverse transform.
  const double bound = want->hadamard ? 1e-5 : 1e-12;
  const Statistics& s = got->statistics;
  EXPECT_EQ(s.count, want->count);
  EXPECT_EQ(s.nonzero, want->nonzero);
  EXPECT_EQ(s.underflow, want->underflow);
  EXPECT_EQ(s.saturation, want->saturation);
  EXPECT_EQ(s.non_finite, 0);
  EXPECT_NEAR(s.signal, want->signal, 1e-12 * want->signal);
  EXPECT_NEAR(s.error, want->error, bound * want->error);
  if (want->hadamard) {
    EXPECT_NEAR(got->max_error, want->max_error, bound * want->max_error);
    EXPECT_NEAR(got->max_relative_error, want->max_relative_error,
                bound * want->max_relative_error);
  } else {
    EXPECT_EQ(got->max_error, want->max_error);
    EXPECT_EQ(got->max_relative_error, want->max_relative_error);
  }
}

TEST(AccuracyOracleTest, EveryFigureInFull) {
  const std::vector<std::string> modules =
      ValueOrDie(ReadModuleNames("tests/data/tensors/modules.txt"));
  for (const oracle::RealTensor& tensor : oracle::RealTensors()) {
    const std::string bytes = ReadDataFile("tensors/" + tensor.file());
    std::optional<TensorJob> job = TensorJobOfFileName(tensor.file());
    ASSERT_TRUE(job.has_value());
    job->step = 599;
    job->modules = modules;
    const Buffer values = ValueOrDie(TensorValues(*job, bytes, tensor.file()));
    for (const std::string& preset : oracle::Presets()) {
      SCOPED_TRACE(preset + ", " + tensor.title());
      const Accuracy got = ValueOrDie(MeasureAccuracy(
          preset, ValueOrDie(Recipe::Load(preset)), *job, values));
      const oracle::Losses want = oracle::LossesOf(preset, tensor, bytes);
      ExpectLoss(got.row_wise, want.row_wise);
      ExpectLoss(got.column_wise, want.column_wise);
      EXPECT_EQ(got.same, want.same);
    }
  }
}

}  // namespace
}  // namespace scalekeeper
