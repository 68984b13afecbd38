// inspect: what is odd about a state, and what differs between two.
#include "tools/inspect.h"

#include <string>
#include <vector>

#include "amax/checkpoint.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "numerics/bits.h"
#include "tests/testing/status_matchers.h"
#include "tests/tools/command_testing.h"

namespace scalekeeper {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

SlotImage Slot(const std::string& name, float scale,
               const std::vector<float>& window) {
  SlotImage slot;
  slot.name = name;
  slot.delayed.emplace();
  slot.delayed->scale_bits = BitsFromFloat(scale);
  slot.delayed->capacity = 8;
  slot.delayed->options.emplace();
  slot.delayed->options->history_len = 8;
  for (float amax : window) slot.delayed->window.push_back(BitsFromFloat(amax));
  return slot;
}

StateImage Image(std::vector<SlotImage> slots) {
  StateImage image;
  image.step = 9;
  image.updates = 9;
  image.slots = std::move(slots);
  return image;
}

std::string WriteState(const std::string& name, const StateImage& image) {
  const std::string path = NewFile(name, "");
  EXPECT_THAT(WriteStateFile(path, image), IsOk());
  return path;
}

TEST(SuspicionsTest, EachKind) {
  EXPECT_THAT(Suspicions(Slot("a/input", 56, {8, 2}), 9), IsEmpty());
  EXPECT_THAT(Suspicions(Slot("a/input", 1, {}), 0), IsEmpty());
  EXPECT_THAT(Suspicions(Slot("a/input", 1, {}), 9),
              ElementsAre("unused: nothing was observed"));
  EXPECT_THAT(Suspicions(Slot("a/input", 448, {8, 2}), 9),
              ElementsAre("stale: the scale is off its window by 8"));
  EXPECT_THAT(Suspicions(Slot("a/input", 4.48f, {1, 2, 100}), 9),
              ElementsAre("spike: 100 after at most 2"));
  EXPECT_THAT(Suspicions(Slot("a/input", kFloatMax, {1e-37f}), 9),
              ElementsAre(HasSubstr("extreme scale 3.4028235e+38")));
  SlotImage slot = Slot("a/input", 56, {8, 2});
  slot.delayed->window.push_back(kFloatInfBits);
  slot.non_finite_steps = 2;
  EXPECT_THAT(Suspicions(slot, 9),
              ElementsAre("non-finite amax in 2 steps",
                          "overflow: inf or NaN in the window"));
}

TEST(InspectTest, SuspiciousSlotsAreOnTop) {
  const std::string path =
      WriteState("a.state", Image({Slot("a/input", 56, {8, 2}),
                                   Slot("b/input", 4.48f, {1, 2, 100})}));
  const CommandResult result = RunCommand({"inspect", path});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(
      result.out,
      "step 9, 9 updates (0 skipped), 2 slots, 1 suspicious, recipe not "
      "known\n"
      "slot     scale  window  max  newest  observed  options                  "
      " "
      "                                                   suspicions\n"
      "b/input  4.48   3       100  100     -         E4M3 margin=0 "
      "amax_history_len=8 amax_compute_algo=MAX non_finite_amax=SKIP  spike: "
      "100 after at most 2\n"
      "a/input  56     2       8    2       -         E4M3 margin=0 "
      "amax_history_len=8 amax_compute_algo=MAX non_finite_amax=SKIP\n");
  const CommandResult json = RunCommand({"inspect", "--output=json", path});
  EXPECT_THAT(json.out, HasSubstr("\"step\": 9"));
  EXPECT_THAT(json.out,
              HasSubstr("{\"slot\": \"b/input\", \"role\": \"input\""));
  EXPECT_THAT(json.out, HasSubstr("\"window\": [1, 2, 100]"));
}

TEST(InspectTest, TwoStatesAreCompared) {
  const StateImage a =
      Image({Slot("a/input", 56, {8, 2}), Slot("c/input", 1, {})});
  StateImage b =
      Image({Slot("a/input", 112, {8, 2, 4}), Slot("b/input", 1, {})});
  b.step = 10;
  const std::string path_a = WriteState("a.state", a);
  const std::string path_b = WriteState("b.state", b);
  const CommandResult result = RunCommand({"inspect", path_a, path_b});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out,
            "a/input: scale: 56 -> 112\n"
            "a/input: window: 2 amaxes, maximum 8 -> 3 amaxes, maximum 8\n"
            "b/input: not in A\n"
            "c/input: not in B\n"
            "state: step: 9 -> 10\n");
  EXPECT_THAT(
      RunCommand({"inspect", path_a, path_b, "--output=json"}).out,
      HasSubstr("{\"slot\": \"b/input\", \"difference\": \"not in A\"}"));
  EXPECT_EQ(RunCommand({"inspect", path_a, path_a}).exit_code, 0);
  EXPECT_EQ(RunCommand({"inspect", path_a, path_a}).out, "");
}

TEST(InspectTest, Trouble) {
  EXPECT_EQ(RunCommand({"inspect"}).exit_code, 2);
  const CommandResult foreign =
      RunCommand({"inspect", NewFile("x.state", "PK zip, not a state")});
  EXPECT_EQ(foreign.exit_code, 2);
  EXPECT_THAT(foreign.err, HasSubstr("x.state: not a scalekeeper state"));
  EXPECT_EQ(RunCommand({"inspect", "/no/such"}).exit_code, 2);
}

TEST(InspectTest, AnEndlessFileIsNotReadToItsEnd) {
  const CommandResult result = RunCommand({"inspect", "/dev/zero"});
  EXPECT_EQ(result.exit_code, kExitTrouble);
  EXPECT_THAT(result.err, HasSubstr("/dev/zero: not a scalekeeper state"));
}

}  // namespace
}  // namespace scalekeeper
