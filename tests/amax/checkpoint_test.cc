// States as bytes and files: the same bytes, the same size, nothing half read.
#include "amax/checkpoint.h"

#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "amax/load_state.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr auto kDataLoss = absl::StatusCode::kDataLoss;
constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;

std::string Bytes(const RecipeState& state) {
  return ValueOrDie(EncodeState(ValueOrDie(SaveState(state, Stream{}))));
}

// Puts the right checksum into changed bytes.
std::string Resealed(std::string bytes) {
  const uint32_t crc =
      ExtendCrc32c(Crc32c(bytes.substr(0, 20)), bytes.substr(24));
  for (int i = 0; i < 4; ++i) bytes[20 + i] = static_cast<char>(crc >> (8 * i));
  return bytes;
}

std::string SomeBytes() {
  OneModule m = FrozenModule(DelayedRecipe("amax_history_len: 4"));
  for (float amax : {1.0f, 8.0f, 2.0f}) EXPECT_THAT(m.Step(amax), IsOk());
  m.Observe(3);
  return Bytes(*m.state);
}

TEST(CheckpointTest, BytesReadBackAsTheSameImage) {
  const std::string bytes = SomeBytes();
  const StateImage image = ValueOrDie(DecodeState(bytes));
  EXPECT_EQ(image.step, 3);
  EXPECT_EQ(image.updates, 3);
  ASSERT_EQ(image.slots.size(), 3u);
  const SlotImage* slot = image.Find("m/input");
  ASSERT_NE(slot, nullptr);
  EXPECT_EQ(slot->group, "default");
  EXPECT_EQ(slot->amax_bits, FloatBits(3));
  ASSERT_TRUE(slot->delayed.has_value());
  EXPECT_EQ(slot->delayed->window, AsBits({1, 8, 2}));
  EXPECT_EQ(slot->delayed->scale_bits, FloatBits(56));
  EXPECT_EQ(slot->delayed->capacity, 4u);
  EXPECT_EQ(Describe(*slot->delayed->options),
            "E4M3 margin=0 amax_history_len=4 amax_compute_algo=MAX "
            "non_finite_amax=SKIP");
  EXPECT_EQ(image.Find("m/output"), nullptr);
  EXPECT_THAT(EncodeState(image), IsOkAndHolds(bytes));
}

TEST(CheckpointTest, TheOrderInWhichModulesWereAddedIsNotSeen) {
  std::vector<std::string> bytes;
  for (const std::vector<std::string>& modules :
       {std::vector<std::string>{"e.2", "e.10"}, {"e.10", "e.2"}}) {
    auto state = MakeState(DelayedRecipe("amax_history_len: 2"));
    for (const std::string& module : modules) {
      ASSERT_THAT(state->AddModule(module), IsOk());
    }
    ASSERT_THAT(state->Freeze(), IsOk());
    bytes.push_back(Bytes(*state));
  }
  EXPECT_EQ(bytes[0], bytes[1]);
  EXPECT_EQ(ValueOrDie(DecodeState(bytes[0])).slots[0].name, "e.2/grad");
}

TEST(CheckpointTest, TheSizeDoesNotDependOnTheStep) {  // J5, J6
  constexpr int kModules = 16, kLength = 64;
  const std::string recipe = DelayedRecipe(
      absl::StrCat("amax_history_len: ", kLength),
      "phase { from_step: 500 rule { module: \".*[13]\" all { format: E4M3 "
      "delayed { amax_history_len: 8 margin: 2 amax_compute_algo: MOST_RECENT "
      "} } grad { format: E5M2 delayed { } } amax_reduction { group: \"other\" "
      "} } } phase { from_step: 800 all { high_precision { } } }");
  auto state = MakeState(recipe);
  for (int i = 0; i < kModules; ++i) {
    ASSERT_THAT(state->AddModule(absl::StrCat("layers.", i)), IsOk());
  }
  ASSERT_THAT(state->Freeze(), IsOk());
  const size_t before = Bytes(*state).size();
  for (int step = 1; step <= 1000; ++step) {
    for (int32_t slot = 0; slot < 3 * kModules; ++slot) {
      Observe(state->View({slot}), FloatBits(static_cast<float>(step)));
    }
    ASSERT_THAT(state->EndStep(Stream{}), IsOk());
    if (step == 1 || step == 600 || step == 1000) {
      EXPECT_EQ(Bytes(*state).size(), before) << "step " << step;
    }
  }
  // K slots of window N: K * (N + 2) * 4 bytes, names and a constant.
  const size_t slots = 3 * kModules;
  EXPECT_LT(before, slots * (kLength + 2) * 4 + slots * 80 + 2000);
}

TEST(CheckpointTest, EveryChangedByteIsFound) {
  const std::string bytes = SomeBytes();
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ (1 << (i % 8)));
    const absl::Status status = DecodeState(changed).status();
    if (i < 8) {
      EXPECT_THAT(status, StatusIs(kInvalidArgument,
                                   HasSubstr("not a scalekeeper state")));
    } else if (i < 12) {
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                                   HasSubstr("schema version: got ")));
    } else {
      EXPECT_THAT(status,
                  StatusIs(kDataLoss, StartsWith("not a whole state: ")));
    }
  }
}

TEST(CheckpointTest, EveryTruncationIsFound) {
  const std::string bytes = SomeBytes();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(DecodeState(bytes.substr(0, size)),
                StatusIs(kDataLoss,
                         HasSubstr(size < 24 ? absl::StrCat("got ", size,
                                                            " bytes, want at")
                                             : std::string("cut off"))));
  }
  EXPECT_THAT(DecodeState(bytes + "x"),
              StatusIs(kDataLoss, HasSubstr("bytes behind the header")));
}

TEST(CheckpointTest, ForeignBytesAreSaidToBeForeign) {
  EXPECT_THAT(DecodeState("PK\x03\x04 something else, a zip file"),
              StatusIs(kInvalidArgument, HasSubstr("begins with \"PK")));
  EXPECT_THAT(DecodeState(std::string(100, '\0')),
              StatusIs(kInvalidArgument, HasSubstr("not a scalekeeper state")));
}

TEST(CheckpointTest, ANewerVersionIsRefusedByNumber) {  // J7
  std::string bytes = SomeBytes();
  bytes[8] = 7;
  EXPECT_THAT(DecodeState(Resealed(bytes)),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("schema version: got 7, want 1..1: written "
                                 "by a newer program")));
  bytes[8] = 0;
  EXPECT_THAT(DecodeState(Resealed(bytes)),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("schema version: got 0, want 1..1")));
}

TEST(CheckpointTest, WholeBytesOfANonsensicalStateAreRefusedByField) {
  const StateImage good = ValueOrDie(DecodeState(SomeBytes()));
  const auto refused = [&](void (*spoil)(StateImage*)) {
    StateImage image = good;
    spoil(&image);
    return EncodeState(image).status();
  };
  EXPECT_THAT(refused([](StateImage* i) { i->step = -1; }),
              StatusIs(kInvalidArgument, "step: got -1, want 0 or more"));
  EXPECT_THAT(
      refused([](StateImage* i) { i->slots[1].delayed->scale_bits = 0; }),
      StatusIs(kInvalidArgument,
               "slot \"m/input\": scale: got 0, want "
               "2^-126..FLT_MAX"));
  EXPECT_THAT(refused([](StateImage* i) {
                i->slots[1].delayed->scale_bits = 0x7F800000;
              }),
              StatusIs(kInvalidArgument, HasSubstr("scale: got inf")));
  EXPECT_THAT(
      refused([](StateImage* i) { i->slots[0].amax_bits = 0x80000000; }),
      StatusIs(kInvalidArgument,
               "slot \"m/grad\": amax: got bits 0x80000000, want no sign bit"));
  EXPECT_THAT(
      refused([](StateImage* i) { i->slots[1].delayed->window[0] = 0; }),
      StatusIs(kInvalidArgument, HasSubstr("window: got an amax of 0")));
  EXPECT_THAT(refused([](StateImage* i) {
                i->slots[1].delayed->options->margin = 160;
              }),
              StatusIs(kInvalidArgument, HasSubstr("margin: got 160")));
  EXPECT_THAT(refused([](StateImage* i) {
                i->slots[1].delayed->options->history_len = 2;
              }),
              StatusIs(kInvalidArgument, HasSubstr("amax_history_len: got 2")));
  EXPECT_THAT(
      refused([](StateImage* i) { std::swap(i->slots[0], i->slots[1]); }),
      StatusIs(kInvalidArgument,
               HasSubstr("got \"m/grad\" behind \"m/input\"")));
  EXPECT_THAT(refused([](StateImage* i) { i->slots[1].name = "m/grad"; }),
              StatusIs(kInvalidArgument, HasSubstr("want each name once")));
  EXPECT_THAT(refused([](StateImage* i) { i->slots[0].group = "tp"; }),
              StatusIs(kInvalidArgument, HasSubstr("group: got \"tp\"")));
}

TEST(CheckpointTest, FilesAreReplacedAsAWhole) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/a.state");
  const StateImage image = ValueOrDie(DecodeState(SomeBytes()));
  ASSERT_THAT(WriteFile(path, "old"), IsOk());
  EXPECT_THAT(ReadStateFile(path),
              StatusIs(kInvalidArgument, StartsWith(path + ": not a scale")));
  ASSERT_THAT(WriteStateFile(path, image), IsOk());
  EXPECT_THAT(EncodeState(ValueOrDie(ReadStateFile(path))),
              IsOkAndHolds(SomeBytes()));
  EXPECT_NE(access(absl::StrCat(path, ".tmp.", getpid()).c_str(), F_OK), 0);
  EXPECT_THAT(ReadStateFile("/no/such.state"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/no/such")));
  EXPECT_THAT(WriteStateFile("/no/such/x", image),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/no/such/x")));
}

}  // namespace
}  // namespace scalekeeper
