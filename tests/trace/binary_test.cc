// Binary traces: what is written is read, whatever a crash leaves of it.
#include <sys/resource.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"
#include "trace/binary_format.h"
#include "trace/binary_writer.h"
#include "trace/csv_writer.h"
#include "trace/ranked_trace.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Path(const std::string& name) {
  return ::testing::TempDir() + "/" + name;
}

TraceHeader Header() {
  TraceHeader header;
  header.columns = {LayerColumn("a", Role::kInput),
                    LayerColumn("b", Role::kGrad),
                    {"a/s", "a", Role::kInput}};
  header.has_loss = true;
  header.rank = 1;
  header.ranks = 4;
  header.recipe_fingerprint = "f2b4f3689d470224";
  return header;
}

TraceStep Step(int64_t number) {
  TraceStep step;
  step.step = number;
  if (number % 2 == 0) step.loss = 0.5 * static_cast<double>(number);
  step.amax_bits = {static_cast<uint32_t>(number), kNotObserved, 0x7FC00001u};
  if (number % 3 == 0) {
    step.histograms.push_back({1, {-44, {7, 0, uint64_t{1} << 40}}});
  }
  return step;
}

// A trace of steps 0 .. count-1; its bytes.
std::string Written(const std::string& path, int count, bool close = true) {
  auto writer = BinaryTraceWriter::Create(path, Header());
  EXPECT_THAT(writer, IsOk());
  for (int i = 0; i < count; ++i) {
    EXPECT_THAT((*writer)->Write(Step(i)), IsOk());
  }
  EXPECT_THAT(close ? (*writer)->Close() : (*writer)->Flush(), IsOk());
  return ReadFile(path).value_or("");
}

struct Contents {
  TraceHeader header;
  std::vector<TraceStep> steps;
  TraceEnd end;
};

absl::StatusOr<Contents> Read(const std::string& path) {
  SK_ASSIGN_OR_RETURN(auto reader, OpenTrace(path));
  Contents contents;
  contents.header = reader->header();
  for (;;) {
    TraceStep step;
    SK_ASSIGN_OR_RETURN(const bool more, reader->Next(&step));
    if (!more) break;
    contents.steps.push_back(std::move(step));
  }
  contents.end = reader->end();
  return contents;
}

void ExpectSteps(const Contents& contents, size_t count) {
  ASSERT_EQ(contents.steps.size(), count);
  for (size_t i = 0; i < count; ++i) {
    const TraceStep want = Step(static_cast<int64_t>(i));
    const TraceStep& got = contents.steps[i];
    EXPECT_EQ(got.step, want.step);
    EXPECT_EQ(got.loss, want.loss);
    EXPECT_EQ(got.amax_bits, want.amax_bits);
    ASSERT_EQ(got.histograms.size(), want.histograms.size());
    for (size_t h = 0; h < got.histograms.size(); ++h) {
      EXPECT_EQ(got.histograms[h].column, want.histograms[h].column);
      EXPECT_EQ(got.histograms[h].histogram.first_exponent,
                want.histograms[h].histogram.first_exponent);
      EXPECT_EQ(got.histograms[h].histogram.counts,
                want.histograms[h].histogram.counts);
    }
  }
}

TEST(BinaryTraceTest, WhatIsWrittenIsRead) {
  const std::string path = Path("whole.sktrace");
  Written(path, 10);
  const auto contents = Read(path);
  ASSERT_THAT(contents, IsOk());
  ExpectSteps(*contents, 10);
  EXPECT_EQ(contents->end.kind, TraceEnd::Kind::kComplete);
  EXPECT_EQ(contents->header.rank, 1);
  EXPECT_EQ(contents->header.ranks, 4);
  EXPECT_EQ(contents->header.recipe_fingerprint, "f2b4f3689d470224");
  ASSERT_EQ(contents->header.columns.size(), 3u);
  EXPECT_EQ(contents->header.columns[1].name, "b/grad");
  EXPECT_EQ(contents->header.columns[2].name, "a/s");
  EXPECT_EQ(contents->header.columns[2].module, "a");
}

// A crash at any byte: the steps whose records are whole are read, and the
// place of the tear is said.
TEST(BinaryTraceTest, EveryPrefixGivesItsWholeSteps) {
  const std::string path = Path("cut.sktrace");
  const std::string header = Written(path, 0, /*close=*/false);
  std::vector<size_t> ends;  // after each step
  for (int count = 1; count <= 4; ++count) {
    ends.push_back(Written(path, count, /*close=*/false).size());
  }
  const std::string all = Written(path, 4);
  for (size_t size = header.size(); size <= all.size(); ++size) {
    ASSERT_THAT(WriteFile(path, all.substr(0, size)), IsOk());
    const auto contents = Read(path);
    ASSERT_THAT(contents, IsOk()) << size;
    size_t steps = 0;
    while (steps < ends.size() && ends[steps] <= size) ++steps;
    ExpectSteps(*contents, steps);
    const TraceEnd& end = contents->end;
    if (size == all.size()) {
      EXPECT_EQ(end.kind, TraceEnd::Kind::kComplete);
    } else if (end.kind == TraceEnd::Kind::kTorn) {
      EXPECT_GT(end.torn_bytes, 0);
      EXPECT_EQ(end.torn_offset + end.torn_bytes, static_cast<int64_t>(size));
      EXPECT_GE(
          end.torn_offset,
          static_cast<int64_t>(steps == 0 ? header.size() : ends[steps - 1]));
    } else {
      EXPECT_EQ(end.kind, TraceEnd::Kind::kUnfinished);
    }
  }
  for (size_t size = 8; size < header.size(); ++size) {
    ASSERT_THAT(WriteFile(path, all.substr(0, size)), IsOk());
    EXPECT_THAT(Read(path), StatusIs(absl::StatusCode::kDataLoss,
                                     HasSubstr("no whole header")))
        << size;
  }
}

TEST(BinaryTraceTest, NoFlippedBitIsReadAsAStep) {
  const std::string path = Path("flip.sktrace");
  const size_t header = Written(path, 0, /*close=*/false).size();
  const std::string all = Written(path, 3);
  for (size_t byte = header; byte < all.size(); ++byte) {
    std::string bytes = all;
    bytes[byte] = static_cast<char>(bytes[byte] ^ (1 << (byte % 8)));
    ASSERT_THAT(WriteFile(path, bytes), IsOk());
    const auto contents = Read(path);
    ASSERT_THAT(contents, IsOk());
    ExpectSteps(*contents, contents->steps.size());
    EXPECT_EQ(contents->end.kind, TraceEnd::Kind::kTorn);
    EXPECT_LE(contents->end.torn_offset, static_cast<int64_t>(byte));
  }
}

TEST(BinaryTraceTest, AnotherVersionIsRefusedByName) {
  const std::string path = Path("version.sktrace");
  ASSERT_THAT(WriteFile(path, "SKTRACE2xxxxxxxx"), IsOk());
  EXPECT_THAT(Read(path), StatusIs(absl::StatusCode::kFailedPrecondition,
                                   HasSubstr("\"SKTRACE2\", want "
                                             "\"SKTRACE1\"")));
  // TraceRecord { header { format_version: 9 } }
  const std::string payload = std::string("\x0A\x02\x08\x09", 4);
  std::string frame;
  internal::AppendUint32(4, &frame);
  internal::AppendUint32(internal::FrameChecksum(frame, payload), &frame);
  ASSERT_THAT(WriteFile(path, "SKTRACE1" + frame + payload), IsOk());
  EXPECT_THAT(Read(path), StatusIs(absl::StatusCode::kFailedPrecondition,
                                   HasSubstr("format_version: got 9, want 1")));
}

TEST(BinaryTraceTest, AStepThatDoesNotFitIsRefusedAndLeavesTheFile) {
  const std::string path = Path("refused.sktrace");
  auto writer = BinaryTraceWriter::Create(path, Header());
  ASSERT_THAT(writer, IsOk());
  ASSERT_THAT((*writer)->Write(Step(0)), IsOk());
  TraceStep step = Step(1);
  step.amax_bits.pop_back();
  EXPECT_THAT((*writer)->Write(step),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("step 1 of a trace: got 2 amaxes, want 3")));
  step = Step(3);
  step.histograms[0].column = 3;
  EXPECT_THAT((*writer)->Write(step),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("histogram of column 3, want 0..2")));
  ASSERT_THAT((*writer)->Close(), IsOk());
  const auto contents = Read(path);
  ASSERT_THAT(contents, IsOk());
  ExpectSteps(*contents, 1);
}

TEST(BinaryTraceTest, AFolderThatIsNotThereIsNamed) {
  EXPECT_THAT(
      BinaryTraceWriter::Create("/no/such/t.sktrace", Header()),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("/no/such/t.sktrace")));
}

TEST(CsvWriterTest, HasNoColumnForASlotBesideALayer) {
  EXPECT_THAT(CsvTraceWriter::Create(Path("s.csv"), Header()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("no column for slot \"a/s\"")));
}

TEST(RankedTraceTest, ACrashedRankEndsTheTraceWithAWarning) {
  const std::string whole = Path("rank0.sktrace");
  const std::string torn = Path("rank1.sktrace");
  Written(whole, 9);
  const std::string bytes = Written(torn, 7, /*close=*/false);
  ASSERT_THAT(WriteFile(torn, bytes.substr(0, bytes.size() - 3)), IsOk());
  auto trace = RankedTrace::Open({whole, torn}, {});
  ASSERT_THAT(trace, IsOk());
  std::vector<TraceStep> steps;
  for (int i = 0; i < 6; ++i) {
    EXPECT_THAT(trace->Next(&steps), IsOkAndHolds(true));
    EXPECT_EQ(steps[1].step, i);
  }
  EXPECT_THAT(trace->warnings(), IsEmpty());
  EXPECT_THAT(trace->Next(&steps), IsOkAndHolds(false));
  EXPECT_THAT(trace->warnings(),
              ElementsAre(AllOf(HasSubstr("rank1.sktrace: warning: torn at "
                                          "byte "),
                                HasSubstr("used: 6 steps"))));
}

TEST(RankedTraceTest, NothingButAHeaderIsNoTrace) {
  const std::string path = Path("empty.sktrace");
  Written(path, 0);
  auto trace = RankedTrace::Open({path}, {});
  ASSERT_THAT(trace, IsOk());
  std::vector<TraceStep> steps;
  EXPECT_THAT(trace->Next(&steps), StatusIs(absl::StatusCode::kInvalidArgument,
                                            HasSubstr("no step in the trace")));
}

// The recorded traces go to the binary form and back to the same bytes.
TEST(ConversionTest, TheRecordedTraceComesBackByteForByte) {
  const std::string folder = "tests/data/traces/";
  for (const std::string rank : {"rank0.csv", "rank1.csv"}) {
    const std::string binary = Path("recorded.sktrace");
    const auto copy = [](TraceReader* reader, TraceWriter* writer) {
      TraceStep step;
      while (reader->Next(&step).value_or(false)) {
        EXPECT_THAT(writer->Write(step), IsOk());
      }
      EXPECT_THAT(writer->Close(), IsOk());
    };
    auto csv = OpenTrace(folder + "amax_" + rank, folder + "log2hist_" + rank);
    ASSERT_THAT(csv, IsOk());
    auto to_binary = BinaryTraceWriter::Create(binary, (*csv)->header());
    ASSERT_THAT(to_binary, IsOk());
    copy(csv->get(), to_binary->get());
    auto reader = OpenTrace(binary);
    ASSERT_THAT(reader, IsOk());
    auto to_csv = CsvTraceWriter::Create(Path("back.csv"), (*reader)->header(),
                                         Path("back_hist.csv"));
    ASSERT_THAT(to_csv, IsOk());
    copy(reader->get(), to_csv->get());
    EXPECT_EQ(ReadFile(Path("back.csv")), ReadFile(folder + "amax_" + rank));
    EXPECT_EQ(ReadFile(Path("back_hist.csv")),
              ReadFile(folder + "log2hist_" + rank));
  }
}

// The sanitizer keeps freed memory, so that nothing can be seen under it.
#ifndef __SANITIZE_ADDRESS__
// A file far larger than what may be held: 1000 slots x 20000 steps = 80 MB.
TEST(BinaryTraceTest, MemoryIsThatOfOneStep) {
  const std::string path = Path("large.sktrace");
  TraceHeader header;
  for (int i = 0; i < 1000; ++i) {
    header.columns.push_back(LayerColumn(absl::StrCat("m", i), Role::kInput));
  }
  auto writer = BinaryTraceWriter::Create(path, header);
  ASSERT_THAT(writer, IsOk());
  TraceStep step;
  step.amax_bits.assign(1000, 0x3F800000u);
  for (step.step = 0; step.step < 20000; ++step.step) {
    ASSERT_THAT((*writer)->Write(step), IsOk());
  }
  ASSERT_THAT((*writer)->Close(), IsOk());
  struct rusage before = {}, after = {};
  ASSERT_EQ(getrusage(RUSAGE_SELF, &before), 0);
  auto reader = OpenTrace(path);
  ASSERT_THAT(reader, IsOk());
  int64_t steps = 0;
  while ((*reader)->Next(&step).value_or(false)) ++steps;
  EXPECT_EQ(steps, 20000);
  ASSERT_EQ(getrusage(RUSAGE_SELF, &after), 0);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 20 * 1024);  // KiB
  ASSERT_EQ(std::remove(path.c_str()), 0);
}
#endif  // __SANITIZE_ADDRESS__

}  // namespace
}  // namespace scalekeeper
