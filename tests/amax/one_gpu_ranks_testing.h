// Two ranks on one GPU: mailboxes in its own memory, reductions through the
// host. What needs two GPUs otherwise can be tried on one: the one-kernel
// exchange, a rank that does not come, and what ranks agree on.
#ifndef SCALEKEEPER_TESTS_AMAX_ONE_GPU_RANKS_TESTING_H_
#define SCALEKEEPER_TESTS_AMAX_ONE_GPU_RANKS_TESTING_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "amax/communicator.h"
#include "amax/device_group.h"
#include "amax/in_process_communicator.h"
#include "amax/mailboxes.h"
#include "amax/recipe_state.h"
#include "base/cuda/handles_cuda.h"
#include "base/device_memory.h"
#include "cuda_runtime_api.h"
#include "gtest/gtest.h"
#include "tests/amax/cuda_state_testing.h"
#include "tests/amax/state_testing.h"
#include "tests/testing/rank_threads.h"

namespace scalekeeper {

// What both ranks share.
struct LocalPair {
  static constexpr uint32_t kCapacity = 200000;

  LocalPair() {
    for (auto& mailbox : mailboxes) {
      mailbox = std::make_unique<DeviceWords>(
          Device::Cuda(0), Mailboxes::Bytes(2, kCapacity) / sizeof(uint32_t));
    }
  }
  std::array<std::unique_ptr<DeviceWords>, 2> mailboxes;
  // Of the kernels, and of the host that waits for them.
  absl::Duration kernels_give_up = Within(absl::Seconds(20));
  absl::Duration host_gives_up = Within(absl::Seconds(20));
};

class LocalRank : public Communicator, public DeviceGroup {
 public:
  LocalRank(LocalPair* pair, std::unique_ptr<Communicator> host)
      : pair_(pair),
        host_(std::move(host)),
        abort_(Device::Cuda(0), 1),
        abort_stream_(ValueOrDie(CreateCudaStream())) {}

  std::string obstacle;    // MailboxObstacle
  bool abandoned = false;  // its mailboxes were

  // As when NCCL reports trouble.
  void GiveUp(absl::Status status) {
    if (!broken_.ok()) return;
    broken_ = std::move(status);
    const uint32_t one = 1;
    DieUnlessOk(
        CudaStatus(cudaMemcpyAsync(abort_.data(), &one, sizeof(one),
                                   cudaMemcpyDefault, abort_stream_.get()),
                   "cudaMemcpyAsync"));
    DieUnlessOk(CudaStatus(cudaStreamSynchronize(abort_stream_.get()),
                           "cudaStreamSynchronize"));
  }

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  absl::Status AllReduceMax(absl::Span<uint32_t> data, Stream stream) override {
    return host_->AllReduceMax(data, stream);
  }
  DeviceGroup* device_group() override { return this; }

  Device device() const override { return Device::Cuda(0); }
  // Waits, unlike a real one.
  absl::Status QueueMax(const uint32_t* send, uint32_t* receive, size_t count,
                        Stream stream, absl::string_view) override {
    std::vector<uint32_t> words(count);
    DieUnlessOk(CopyToHost(device(), words.data(), send,
                           count * sizeof(uint32_t), stream));
    const absl::Status status =
        host_->AllReduceMax(absl::MakeSpan(words), Stream{});
    if (!status.ok()) return status;
    return CopyFromHost(device(), receive, words.data(),
                        count * sizeof(uint32_t), stream);
  }
  absl::Status Poll() override { return broken_; }
  absl::Status Wait(Stream stream) override {
    return WaitFor([stream] { return cudaStreamQuery(AsCudaStream(stream)); });
  }
  // Of the two states' streams, each rank's own.
  absl::Status WaitForDevice() override { return Wait(own_stream); }
  const uint32_t* abort_word() const override {
    return const_cast<DeviceWords&>(abort_).data();
  }
  std::string MailboxObstacle() const override { return obstacle; }
  absl::StatusOr<std::unique_ptr<MailboxMemory>> MakeMailboxes(
      uint32_t capacity) override {
    if (capacity > LocalPair::kCapacity) {
      return absl::ResourceExhaustedError("capacity");
    }
    auto memory = std::make_unique<Memory>();
    memory->abandoned = &abandoned;
    memory->boxes.ranks = 2;
    memory->boxes.rank = static_cast<uint32_t>(rank());
    memory->boxes.capacity = LocalPair::kCapacity;
    memory->boxes.deadline_ns =
        static_cast<uint64_t>(absl::ToInt64Nanoseconds(pair_->kernels_give_up));
    for (size_t r = 0; r < 2; ++r) {
      memory->boxes.lines[r] =
          reinterpret_cast<uint64_t*>(pair_->mailboxes[r]->data());
    }
    return memory;
  }

  Stream own_stream;

 private:
  struct Memory : MailboxMemory {
    const Mailboxes& mailboxes() const override { return boxes; }
    void Abandon() override { *abandoned = true; }
    Mailboxes boxes;
    bool* abandoned = nullptr;
  };

  template <typename Query>
  absl::Status WaitFor(const Query& query) {
    const absl::Time end = absl::Now() + pair_->host_gives_up;
    while (query() == cudaErrorNotReady) {
      if (absl::Now() > end) {
        GiveUp(absl::DeadlineExceededError("the host gave up"));
      }
      absl::SleepFor(absl::Milliseconds(1));
    }
    return CudaStatus(query(), "query");
  }

  LocalPair* const pair_;
  const std::unique_ptr<Communicator> host_;
  DeviceWords abort_;
  const CudaStream abort_stream_;
  absl::Status broken_;
};

// Two states of `modules` modules each, with streams of their own.
class LocalJob {
 public:
  LocalJob(Exchange exchange, int modules,
           std::vector<Device> devices = {Device::Cuda(0), Device::Cuda(0)}) {
    auto host = CreateInProcessCommunicators(2);
    for (size_t r = 0; r < 2; ++r) {
      ranks_.push_back(std::make_unique<LocalRank>(&pair, std::move(host[r])));
      streams_.push_back(ValueOrDie(CreateCudaStream()));
      ranks_[r]->own_stream = AsStream(streams_[r]);
      RecipeStateOptions options;
      options.device = devices[r];
      options.groups["default"] = ranks_[r].get();
      options.exchange = exchange;
      states_.push_back(MakeState(DelayedRecipe(""), options));
      const std::vector<ModuleSlots> added =
          ValueOrDie(states_[r]->AddModules("m", modules, ""));
      for (const ModuleSlots& slots : added) {
        if (r == 0) slots_.push_back(slots.input);
      }
    }
  }

  // Set before Freeze.
  LocalPair pair;

  LocalRank& rank(int r) { return *ranks_[static_cast<size_t>(r)]; }
  RecipeState& state(int r) { return *states_[static_cast<size_t>(r)]; }
  void Destroy(int r) { states_[static_cast<size_t>(r)].reset(); }
  Stream stream(int r) const {
    return AsStream(streams_[static_cast<size_t>(r)]);
  }
  const std::vector<SlotId>& slots() const { return slots_; }
  std::vector<absl::Status> Freeze() {
    std::vector<absl::Status> statuses(2);
    RunRanks(2, [&](int r) {
      statuses[static_cast<size_t>(r)] = state(r).Freeze();
    });
    return statuses;
  }
  void Observe(int r, float amax, size_t slot = 0) {
    SetAmax(state(r), slots_[slot], FloatBits(amax), stream(r));
  }
  float Scale(int r, size_t slot = 0) {
    return ValueOrDie(state(r).Scale(slots_[slot], stream(r)));
  }

 private:
  std::vector<std::unique_ptr<LocalRank>> ranks_;
  std::vector<CudaStream> streams_;
  std::vector<std::unique_ptr<RecipeState>> states_;
  std::vector<SlotId> slots_;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TESTS_AMAX_ONE_GPU_RANKS_TESTING_H_
