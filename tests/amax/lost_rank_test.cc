// A job of four processes loses one. The survivors learn it within the
// deadline, go back to their last common step, and stop, or go on without the
// lost one; or the job is started again from its checkpoints. What their scales
// and windows must be then comes from tests/testing/delayed_oracle.h.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/amax/gloo_rank_testing.h"
#include "tests/amax/gloo_testing.h"
#include "tests/testing/delayed_oracle.h"

namespace scalekeeper {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int kRanks = 4;
constexpr int64_t kForEver = 1'000'000'000;

// A child with pipes to its standard input and output; killed at the end.
class Process {
 public:
  explicit Process(const std::vector<std::string>& args) {
    int in[2], out[2];
    EXPECT_EQ(::pipe2(in, O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(out, O_CLOEXEC), 0);
    std::vector<char*> argv;
    for (const std::string& arg : args) {
      argv.push_back(const_cast<char*>(arg.c_str()));
    }
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(in[0], 0);
      ::dup2(out[1], 1);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    to_ = in[1];
    from_ = out[0];
  }
  ~Process() {
    if (!ended_) {
      Signal(SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    ::close(to_);
    ::close(from_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void Signal(int signal) { ::kill(pid_, signal); }
  void Say(const std::string& line) {
    const std::string text = line + "\n";
    EXPECT_EQ(::write(to_, text.data(), text.size()),
              static_cast<ssize_t>(text.size()));
  }
  // The next line that it says; "" at its end, or after 60 s.
  std::string Line() {
    const absl::Time end = absl::Now() + absl::Seconds(60);
    while (heard_.find('\n') == std::string::npos) {
      pollfd entry = {from_, POLLIN, 0};
      const int left =
          static_cast<int>(absl::ToInt64Milliseconds(end - absl::Now()));
      char bytes[4096];
      if (left <= 0 || ::poll(&entry, 1, left) <= 0) return "";
      const ssize_t n = ::read(from_, bytes, sizeof(bytes));
      if (n <= 0) return "";
      heard_.append(bytes, static_cast<size_t>(n));
    }
    const std::string line = heard_.substr(0, heard_.find('\n'));
    heard_.erase(0, line.size() + 1);
    return line;
  }
  // Its exit status, -1 when a signal ended it.
  int Wait() {
    int status = 0;
    EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
    ended_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
  bool ended_ = false;
  std::string heard_;
};

// What scales and windows are after steps that these ranks took part in.
class ExpectedJob {
 public:
  ExpectedJob() : slots_(kJobSlots) {
    for (DelayedOracle& slot : slots_) slot.history_len = kJobWindow;
  }
  void StepTo(int64_t step, const std::vector<int>& ranks) {
    for (; step_ < step; ++step_) {
      for (int slot = 0; slot < kJobSlots; ++slot) {
        uint32_t amax = 0;
        for (const int rank : ranks) {
          amax = std::max(amax, JobAmax(step_, rank, slot));
        }
        slots_[static_cast<size_t>(slot)].Step(amax);
      }
    }
  }
  std::string At() const {
    Digest digest;
    for (const DelayedOracle& slot : slots_) {
      for (const uint32_t bits : slot.window) digest.Add(bits);
      digest.Add(static_cast<uint32_t>(slot.window.size()));
      digest.Add(DelayedOracle::Bits(slot.scale));
    }
    return absl::StrCat("at ", step_, " ", digest.value());
  }

 private:
  std::vector<DelayedOracle> slots_;
  int64_t step_ = 0;
};

class LostRankTest : public ::testing::Test {
 protected:
  void Start(int64_t last_step, int deadline_ms, int64_t checkpoint = -1) {
    ranks_.clear();
    for (int r = 0; r < kRanks; ++r) {
      ranks_.push_back(std::make_unique<Process>(std::vector<std::string>{
          "tests/amax/gloo_rank", directory_.path(), absl::StrCat(r),
          absl::StrCat(kRanks), absl::StrCat(last_step),
          absl::StrCat(deadline_ms),
          checkpoint < 0 ? "-" : CheckpointOf(r, checkpoint)}));
    }
    for (const auto& rank : ranks_) ASSERT_EQ(rank->Line(), "ready");
  }

  std::string CheckpointOf(int rank, int64_t step) const {
    return absl::StrCat(directory_.path(), "/state.", rank, ".", step);
  }

  // Ends or stops the victim somewhere in its steps; the survivors' words.
  void Lose(int victim, int signal) {
    absl::SleepFor(absl::Microseconds(
        std::uniform_int_distribution<int>(0, 200'000)(random_)));
    ranks_[static_cast<size_t>(victim)]->Signal(signal);
    survivors_.clear();
    steps_.clear();
    words_.clear();
    for (int r = 0; r < kRanks; ++r) {
      if (r == victim) continue;
      survivors_.push_back(r);
      const std::string line = ranks_[static_cast<size_t>(r)]->Line();
      std::istringstream text(line);
      std::string lost;
      int64_t step = -1;
      text >> lost >> step;
      ASSERT_EQ(lost, "lost") << "rank " << r << ": " << line;
      steps_.push_back(step);
      words_.push_back(line);
    }
  }

  // All survivors at the last common step; they differ by one at most.
  void RestoreAll() {
    common_ = *std::min_element(steps_.begin(), steps_.end());
    ASSERT_LE(*std::max_element(steps_.begin(), steps_.end()), common_ + 1);
    expected_ = ExpectedJob();
    expected_.StepTo(common_, {0, 1, 2, 3});
    for (const int r : survivors_) {
      Process& rank = *ranks_[static_cast<size_t>(r)];
      rank.Say(absl::StrCat("restore ", common_));
      EXPECT_EQ(rank.Line(), expected_.At()) << "rank " << r;
    }
  }

  void ExpectCleanExit(int rank) {
    Process& process = *ranks_[static_cast<size_t>(rank)];
    EXPECT_EQ(process.Line(), "done");
    EXPECT_EQ(process.Wait(), 0);
  }

  const TemporaryDirectory directory_;
  std::mt19937 random_{std::random_device()()};
  std::vector<std::unique_ptr<Process>> ranks_;
  std::vector<int> survivors_;
  std::vector<int64_t> steps_;      // of the survivors
  std::vector<std::string> words_;  // theirs
  int64_t common_ = 0;
  ExpectedJob expected_;
};

TEST_F(LostRankTest, SurvivorsOfAKilledProcessAgreeAndExit) {  // I14
  for (int round = 0; round < 3; ++round) {
    for (const auto& file :
         std::filesystem::directory_iterator(directory_.path())) {
      std::filesystem::remove(file);
    }
    ASSERT_NO_FATAL_FAILURE(Start(kForEver, 20'000));
    const int victim = round;
    const absl::Time begin = absl::Now();
    ASSERT_NO_FATAL_FAILURE(Lose(victim, SIGKILL));
    EXPECT_LT(absl::Now() - begin, absl::Seconds(20))
        << "a process that ended is noticed before the deadline";
    for (size_t i = 0; i < words_.size(); ++i) {
      EXPECT_THAT(
          words_[i],
          AllOf(HasSubstr(absl::StrCat("lost ", steps_[i],
                                       " UNAVAILABLE EndStep of step ",
                                       steps_[i], ", group \"default\": ")),
                HasSubstr("gloo group \"world\""),
                HasSubstr(absl::StrCat("rank ", victim, " of 4 is gone"))));
    }
    ASSERT_NO_FATAL_FAILURE(RestoreAll());
    for (const int rank : survivors_) {
      ranks_[static_cast<size_t>(rank)]->Say("exit");
      ExpectCleanExit(rank);
    }
  }
}

TEST_F(LostRankTest, AProcessThatHangsEndsInDeadlineExceeded) {  // I14
  ASSERT_NO_FATAL_FAILURE(Start(kForEver, 1500));
  ASSERT_NO_FATAL_FAILURE(Lose(2, SIGSTOP));
  for (size_t i = 0; i < words_.size(); ++i) {
    EXPECT_THAT(words_[i],
                AllOf(HasSubstr(absl::StrCat("DEADLINE_EXCEEDED EndStep of "
                                             "step ",
                                             steps_[i], ", group \"default\"")),
                      // One that is a step ahead misses more of them.
                      ContainsRegex("ranks? ([013], )*2(, 3)? of 4 did not "
                                    "come within 1.5s")));
  }
  ASSERT_NO_FATAL_FAILURE(RestoreAll());
  for (const int rank : survivors_) {
    ranks_[static_cast<size_t>(rank)]->Say("exit");
    ExpectCleanExit(rank);
  }
  // The one that hung wakes up and is told that the others have given up.
  Process& late = *ranks_[2];
  late.Signal(SIGCONT);
  EXPECT_THAT(late.Line(), StartsWith("lost "));
  late.Say("exit");
  ExpectCleanExit(2);
}

TEST_F(LostRankTest, SurvivorsGoOnWithoutTheLostOne) {
  ASSERT_NO_FATAL_FAILURE(Start(kForEver, 20'000));
  ASSERT_NO_FATAL_FAILURE(Lose(1, SIGKILL));
  ASSERT_NO_FATAL_FAILURE(RestoreAll());
  for (size_t i = 0; i < survivors_.size(); ++i) {
    ranks_[static_cast<size_t>(survivors_[i])]->Say(absl::StrCat(
        "join smaller ", i, " ", survivors_.size(), " ", common_ + 25));
  }
  expected_.StepTo(common_ + 25, survivors_);
  for (const int rank : survivors_) {
    EXPECT_EQ(ranks_[static_cast<size_t>(rank)]->Line(), expected_.At());
    ExpectCleanExit(rank);
  }
}

TEST_F(LostRankTest, AJobStartedAgainFromCheckpointsIsAsIfNothingHappened) {
  ASSERT_NO_FATAL_FAILURE(Start(kForEver, 20'000));
  // The first one is written when every rank has done 16 steps.
  while (!std::filesystem::exists(CheckpointOf(0, 16))) {
    absl::SleepFor(absl::Milliseconds(5));
  }
  ASSERT_NO_FATAL_FAILURE(Lose(3, SIGKILL));
  ranks_.clear();  // all of them end, at whatever step
  int64_t step = 16;
  const auto all_have = [&](int64_t s) {
    for (int r = 0; r < kRanks; ++r) {
      if (!std::filesystem::exists(CheckpointOf(r, s))) return false;
    }
    return true;
  };
  ASSERT_TRUE(all_have(step));
  while (all_have(step + 16)) step += 16;
  ASSERT_NO_FATAL_FAILURE(Start(step + 25, 20'000, step));
  expected_.StepTo(step + 25, {0, 1, 2, 3});
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(ranks_[static_cast<size_t>(rank)]->Line(), expected_.At());
    ExpectCleanExit(rank);
  }
}

}  // namespace
}  // namespace scalekeeper
