// NcclCommunicator by itself: borrowed, owned, from a launcher's variables.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "amax/nccl_communicator.h"
#include "amax/nccl_launcher.h"
#include "amax/nccl_version.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/amax/nccl_testing.h"

namespace scalekeeper {
namespace {

using ::testing::HasSubstr;

constexpr auto kDeadlineExceeded = absl::StatusCode::kDeadlineExceeded;

class NcclCommunicatorTest : public TwoGpuTest {};

// The maximum is that of uint32: NaN and the sign bit are values like others.
TEST_F(NcclCommunicatorTest, ReducesWordsOfHostAndDevice) {
  const auto group = MakeNcclGroup(2, absl::Seconds(20));
  RunRanks(2, [&](int rank) {
    Communicator& communicator = *group[static_cast<size_t>(rank)];
    EXPECT_EQ(communicator.rank(), rank);
    EXPECT_EQ(communicator.size(), 2);
    const uint32_t r = static_cast<uint32_t>(rank);
    for (uint32_t count : {1u, 0u, 7u, 1000u, 3u}) {
      std::vector<uint32_t> words(count), want(count);
      for (uint32_t i = 0; i < count; ++i) {
        words[i] = (i + r) % 4 == 0 ? 0x7FC00000u + i : i * 10 + r;
        want[i] = i % 4 == 0 || (i + 1) % 4 == 0 ? 0x7FC00000u + i : i * 10 + 1;
      }
      if (count > 2) {
        if (rank == 0) words[2] = 0xFFFFFFFFu;
        want[2] = 0xFFFFFFFFu;
      }
      DeviceWords on_device(Device::Cuda(rank), count + 1);
      std::vector<uint32_t> copy = words;
      copy.push_back(5);
      on_device.Write(copy);
      ASSERT_THAT(communicator.AllReduceMax(absl::MakeSpan(words), Stream{}),
                  IsOk());
      EXPECT_EQ(words, want);
      ASSERT_THAT(communicator.AllReduceMax(
                      absl::MakeSpan(on_device.data(), count), Stream{}),
                  IsOk());
      want.push_back(5);
      EXPECT_EQ(on_device.Read(), want);
    }
    int device = -1;
    EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
    EXPECT_EQ(device, 0) << "the current device is unchanged";
  });
}

TEST_F(NcclCommunicatorTest, AMissingRankEndsInDeadlineExceeded) {  // I14
  const auto group = MakeNcclGroup(2, absl::Seconds(2));
  uint32_t word = 7;
  const absl::Time begin = absl::Now();
  EXPECT_THAT(group[0]->AllReduceMax(absl::MakeSpan(&word, 1), Stream{}),
              StatusIs(kDeadlineExceeded, HasSubstr("rank 0 of 2")));
  EXPECT_LT(absl::Now() - begin, Within(absl::Seconds(15)));
  EXPECT_EQ(word, 7u);
  EXPECT_THAT(group[0]->AllReduceMax(absl::MakeSpan(&word, 1), Stream{}),
              StatusIs(kDeadlineExceeded, HasSubstr("rank 0 of 2")));
}

TEST_F(NcclCommunicatorTest, ARankThatNeverCreatesItsOwnIsNoticed) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  NcclCommunicatorOptions options;
  options.deadline = Within(absl::Seconds(2));
  EXPECT_THAT(CreateNcclCommunicator(id, 0, 2, 0, options),
              StatusIs(kDeadlineExceeded, HasSubstr("rank 0 of 2")));
}

TEST_F(NcclCommunicatorTest, WhatCannotBeIsNamed) {
  EXPECT_THAT(BorrowNcclCommunicator(nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("null")));
  ncclUniqueId id = {};
  EXPECT_THAT(
      CreateNcclCommunicator(id, 2, 2, 0),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rank 2 of 2")));
  NcclCommunicatorOptions options;
  options.deadline = absl::ZeroDuration();
  EXPECT_THAT(CreateNcclCommunicator(id, 0, 2, 0, options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("options.deadline")));
}

// A stack's own ncclComm_t, and a stack that reduces the messages itself: the
// same bits as EndStep.
TEST_F(NcclCommunicatorTest, ABorrowedOneAndAStacksOwnReduction) {
  std::vector<ncclComm_t> comms(2);
  const int devices[] = {0, 1};
  ASSERT_EQ(ncclCommInitAll(comms.data(), 2, devices), ncclSuccess);
  std::vector<float> by_library(2), by_stack(2);
  RunRanks(2, [&](int rank) {
    const size_t r = static_cast<size_t>(rank);
    ASSERT_EQ(cudaSetDevice(rank), cudaSuccess);
    NcclCommunicatorOptions nccl_options;
    nccl_options.deadline = Within(absl::Seconds(20));
    const auto communicator =
        ValueOrDie(BorrowNcclCommunicator(comms[r], nccl_options));
    EXPECT_EQ(communicator->rank(), rank);
    const CudaStream stream = ValueOrDie(CreateCudaStream());
    RecipeStateOptions options;
    options.device = Device::Cuda(rank);
    {
      options.groups["default"] = communicator.get();
      OneModule m(DelayedRecipe(""), options);
      ASSERT_THAT(m.Freeze(), IsOk());
      for (float amax : {3.0f, 1.0f}) {
        SetAmax(*m.state, m.slots.input,
                FloatBits(amax + static_cast<float>(rank)), AsStream(stream));
        ASSERT_THAT(m.state->EndStep(AsStream(stream)), IsOk());
      }
      by_library[r] =
          ValueOrDie(m.state->Scale(m.slots.input, AsStream(stream)));
    }
    options.groups.clear();
    OneModule m(DelayedRecipe(""), options);
    ASSERT_THAT(m.Freeze(), IsOk());
    for (float amax : {3.0f, 1.0f}) {
      SetAmax(*m.state, m.slots.input,
              FloatBits(amax + static_cast<float>(rank)), AsStream(stream));
      ASSERT_THAT(m.state->Pack(AsStream(stream)), IsOk());
      const AmaxMessageView message =
          ValueOrDie(m.state->AmaxMessage("default"));
      ASSERT_EQ(ncclAllReduce(message.data, message.data, message.count,
                              ncclUint32, ncclMax, comms[r], stream.get()),
                ncclSuccess);
      ASSERT_THAT(m.state->Update(AsStream(stream)), IsOk());
    }
    ASSERT_THAT(m.state->Check(AsStream(stream)), IsOk());
    by_stack[r] = ValueOrDie(m.state->Scale(m.slots.input, AsStream(stream)));
  });
  for (size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(by_library[r], 112);
    EXPECT_EQ(by_stack[r], 112);
  }
  for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

// Its window cannot be given back: that is collective, and the other rank does
// not come.
TEST_F(NcclCommunicatorTest, ABrokenBorrowedOneEndsWithoutTheOtherRank) {
  std::vector<ncclComm_t> comms(2);
  const int devices[] = {0, 1};
  ASSERT_EQ(ncclCommInitAll(comms.data(), 2, devices), ncclSuccess);
  NcclCommunicatorOptions nccl_options;
  nccl_options.deadline = Within(absl::Seconds(2));
  std::vector<std::unique_ptr<Communicator>> group(2);
  std::vector<std::unique_ptr<OneModule>> modules(2);
  RunRanks(2, [&](int rank) {
    const size_t r = static_cast<size_t>(rank);
    ASSERT_EQ(cudaSetDevice(rank), cudaSuccess);
    group[r] = ValueOrDie(BorrowNcclCommunicator(comms[r], nccl_options));
    RecipeStateOptions options;
    options.device = Device::Cuda(rank);
    options.groups["default"] = group[r].get();
    options.exchange = Exchange::kFused;
    modules[r] = std::make_unique<OneModule>(DelayedRecipe(""), options);
    ASSERT_THAT(modules[r]->Freeze(), IsOk());
  });
  const absl::Time begin = absl::Now();
  ASSERT_THAT(modules[0]->state->EndStep(Stream{}), IsOk()) << "queued";
  EXPECT_THAT(modules[0]->state->Check(Stream{}),
              StatusIs(kDeadlineExceeded, HasSubstr("rank 1 of 2")));
  uint32_t word = 1;
  EXPECT_THAT(group[0]->AllReduceMax(absl::MakeSpan(&word, 1), Stream{}),
              StatusIs(kDeadlineExceeded, HasSubstr("rank 0 of 2")));
  modules[0].reset();
  group[0].reset();
  EXPECT_LT(absl::Now() - begin, Within(absl::Seconds(40)));
  // The other rank alike: its first reduction meets that of rank 0, which has
  // gone on waiting for it, and its second one nobody.
  (void)group[1]->AllReduceMax(absl::MakeSpan(&word, 1), Stream{});
  EXPECT_THAT(group[1]->AllReduceMax(absl::MakeSpan(&word, 1), Stream{}),
              StatusIs(kDeadlineExceeded, HasSubstr("rank 1 of 2")));
  modules[1].reset();
  group[1].reset();
  for (ncclComm_t comm : comms) (void)ncclCommAbort(comm);
}

TEST(NcclVersionTest, OnlyTheVersionOfTheHeadersMapsMemory) {
  EXPECT_EQ(NcclVersionObstacle(NCCL_VERSION_CODE), "");
  for (int loaded : {0, NCCL_VERSION_CODE - 1, NCCL_VERSION_CODE + 1, 22803}) {
    EXPECT_THAT(
        NcclVersionObstacle(loaded),
        ::testing::AllOf(HasSubstr(absl::StrCat("NCCL ", loaded, " is loaded")),
                         HasSubstr(absl::StrCat(NCCL_VERSION_CODE))));
  }
}

// A collective of the launcher's would wait; this is known before.
TEST(LauncherTest, ADeadlineOfNothingIsRefusedBeforeTheRanksMeet) {
  LauncherVariables job;
  job.size = 2;
  NcclCommunicatorOptions options;
  for (absl::Duration deadline : {absl::ZeroDuration(), -absl::Seconds(1)}) {
    options.deadline = deadline;
    EXPECT_THAT(CreateNcclCommunicatorFromLauncher(job, options),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("options.deadline")));
  }
}

// In a child process; its exit status.
int RunAsLaunched(int rank) {
  absl::StatusOr<LauncherVariables> job = ReadLauncherVariables();
  if (!job.ok()) return 10;
  NcclCommunicatorOptions options;
  options.deadline = Within(absl::Seconds(30));
  absl::StatusOr<std::unique_ptr<Communicator>> communicator =
      CreateNcclCommunicatorFromLauncher(*job, options);
  if (!communicator.ok()) {
    std::fprintf(stderr, "%s\n", communicator.status().ToString().c_str());
    return 11;
  }
  uint32_t word = 40 + static_cast<uint32_t>(rank);
  if (!(*communicator)->AllReduceMax(absl::MakeSpan(&word, 1), Stream{}).ok()) {
    return 12;
  }
  return word == 41 ? 0 : 13;
}

// CUDA does not survive a fork: the children start this program anew.
TEST_F(NcclCommunicatorTest, TwoProcessesMeetByTheLaunchersVariables) {
  if (const char* rank = std::getenv("SCALEKEEPER_TEST_CHILD")) {
    std::_Exit(RunAsLaunched(std::atoi(rank)));
  }
  const std::string port =
      absl::StrCat(20000 + static_cast<int>(::getpid()) % 20000);
  std::vector<pid_t> children;
  for (int rank = 0; rank < 2; ++rank) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const std::string text = absl::StrCat(rank);
      (void)::setenv("SCALEKEEPER_TEST_CHILD", text.c_str(), 1);
      (void)::setenv("RANK", text.c_str(), 1);
      (void)::setenv("LOCAL_RANK", text.c_str(), 1);
      (void)::setenv("WORLD_SIZE", "2", 1);
      (void)::setenv("MASTER_ADDR", "127.0.0.1", 1);
      (void)::setenv("MASTER_PORT", port.c_str(), 1);
      (void)::execl("/proc/self/exe", "nccl_communicator_cuda_test",
                    "--gtest_filter=*TwoProcessesMeet*",
                    static_cast<char*>(nullptr));
      std::_Exit(14);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
}

TEST(LauncherVariablesTest, ErrorsNameTheVariableAndItsValue) {
  for (const char* name :
       {"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    (void)::setenv(name, "1", 1);
  }
  (void)::setenv("WORLD_SIZE", "2", 1);
  const LauncherVariables job = ValueOrDie(ReadLauncherVariables());
  EXPECT_EQ(job.rank, 1);
  EXPECT_EQ(job.size, 2);
  EXPECT_EQ(job.address, "1");
  (void)::setenv("RANK", "2", 1);
  EXPECT_THAT(ReadLauncherVariables(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("RANK: got \"2\", want 0..1")));
  (void)::setenv("RANK", "0", 1);
  (void)::setenv("MASTER_PORT", "port", 1);
  EXPECT_THAT(ReadLauncherVariables(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("MASTER_PORT: got \"port\"")));
  (void)::unsetenv("WORLD_SIZE");
  EXPECT_THAT(
      ReadLauncherVariables(),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("WORLD_SIZE: not set")));
}

}  // namespace
}  // namespace scalekeeper
