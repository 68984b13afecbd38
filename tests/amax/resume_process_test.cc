// Checkpoints and real processes: a second one goes on, one that is killed
// while it saves leaves a whole file.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "amax/checkpoint.h"
#include "amax/load_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

constexpr int kModules = 40;

std::unique_ptr<RecipeState> FrozenState() {
  auto state = MakeState(
      "defaults { all { delayed { amax_history_len: 64 } } input { format: "
      "E4M3 delayed { amax_history_len: 4 } } } "
      "phase { from_step: 7 input { delayed { amax_history_len: 9 margin: 1 } "
      "} }");
  for (int i = 0; i < kModules; ++i) {
    EXPECT_THAT(state->AddModule(absl::StrCat("layers.", i)), IsOk());
  }
  EXPECT_THAT(state->Freeze(), IsOk());
  return state;
}

void ObserveAll(int64_t step, RecipeState* state) {
  std::mt19937 random(static_cast<unsigned>(step));
  for (int32_t slot = 0; slot < 3 * kModules; ++slot) {
    Observe(state->View({slot}), static_cast<uint32_t>(random() % 0x7F800000u));
  }
}

void Steps(int count, RecipeState* state) {
  for (int i = 0; i < count; ++i) {
    ObserveAll(state->step(), state);
    ASSERT_THAT(state->EndStep(Stream{}), IsOk());
  }
}

std::string Bytes(const RecipeState& state) {
  return ValueOrDie(EncodeState(ValueOrDie(SaveState(state, Stream{}))));
}

std::string TempPath(absl::string_view name) {
  return absl::StrCat(::testing::TempDir(), "/", name);
}

// This program again, as `command path`; a negative number is a signal.
pid_t Start(const char* command, const std::string& path) {
  const pid_t child = fork();
  if (child == 0) {
    execl("/proc/self/exe", "resume_process_test", command, path.c_str(),
          static_cast<char*>(nullptr));
    _exit(127);
  }
  return child;
}

int Wait(pid_t child) {
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// Loads, goes on for five steps, observes, saves.
int GoOn(const std::string& path) {
  auto state = FrozenState();
  auto image = ReadStateFile(path);
  if (!image.ok()) return 3;
  if (!LoadState(*image, LoadOptions(), Stream{}, state.get()).ok()) return 4;
  Steps(5, state.get());
  ObserveAll(99, state.get());
  image = SaveState(*state, Stream{});
  return image.ok() && WriteStateFile(path, *image).ok() ? 0 : 5;
}

// Saves for ever, one step after another; says when the first file is there.
int SaveForEver(const std::string& path) {
  auto state = FrozenState();
  while (true) {
    Steps(1, state.get());
    const auto image = SaveState(*state, Stream{});
    if (!image.ok() || !WriteStateFile(path, *image).ok()) return 5;
  }
}

TEST(ResumeTest, FiveStepsAndFiveInANewProcessAreTen) {  // J9
  auto whole = FrozenState();
  Steps(5, whole.get());
  ObserveAll(98, whole.get());
  const std::string path = TempPath("resume.state");
  ASSERT_THAT(WriteStateFile(path, ValueOrDie(SaveState(*whole, Stream{}))),
              IsOk());
  Steps(5, whole.get());
  ObserveAll(99, whole.get());
  ASSERT_EQ(Wait(Start("--go_on", path)), 0);
  const StateImage resumed = ValueOrDie(ReadStateFile(path));
  EXPECT_EQ(resumed.step, 10);
  EXPECT_EQ(ValueOrDie(EncodeState(resumed)), Bytes(*whole));
}

TEST(ResumeTest, KilledWhileSavingAtAHundredMoments) {
  const std::string path = TempPath("killed.state");
  std::mt19937 random(1);
  auto state = FrozenState();
  ASSERT_THAT(WriteStateFile(path, ValueOrDie(SaveState(*state, Stream{}))),
              IsOk());
  int64_t newest = 0;
  int half_written = 0;
  for (int i = 0; i < 100; ++i) {
    const pid_t child = Start("--save_for_ever", path);
    std::this_thread::sleep_for(
        std::chrono::microseconds(2000 + random() % 40000));
    kill(child, SIGKILL);
    ASSERT_EQ(Wait(child), -SIGKILL);
    half_written += unlink(absl::StrCat(path, ".tmp.", child).c_str()) == 0;
    const auto image = ReadStateFile(path);
    ASSERT_THAT(image, IsOk()) << "killed " << i;
    ASSERT_THAT(LoadState(*image, LoadOptions(), Stream{}, state.get()),
                IsOk());
    newest = std::max(newest, image->step);
  }
  EXPECT_GT(half_written, 0) << "no child was killed while it saved";
  EXPECT_GT(newest, 0) << "no child was alive long enough to save";
}

}  // namespace
}  // namespace scalekeeper

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--go_on") == 0) {
    return scalekeeper::GoOn(argv[2]);
  }
  if (argc == 3 && std::strcmp(argv[1], "--save_for_ever") == 0) {
    return scalekeeper::SaveForEver(argv[2]);
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
