// The exchange and the update of a step in one kernel, on one NVLink domain.
//
// Every rank stores its amaxes straight into the others' mailboxes
// (amax/mailboxes.h), one 8-byte line {word, epoch} per slot, and takes the
// maximum of what the others stored into its own. While the lines travel, each
// thread loads everything else that its slot's update needs. The control words
// travel the same way, once per rank; every block reads them.
//
// The protocol is NCCL's LL one (a flag beside every word, no fence, no
// barrier). It is written out here because NCCL's own session waits for ever:
// this one gives up after Mailboxes::deadline_ns, or when the host says so.
#include "absl/strings/str_cat.h"
#include "amax/kernels_cuda.h"
#include "amax/update_cuda.cuh"
#include "base/cuda/device_guard_cuda.h"
#include "base/cuda/handles_cuda.h"
#include "base/cuda/status_cuda.h"
#include "base/status_macros.h"

namespace scalekeeper {
namespace {

using device::BlockShared;
using device::InControlWarp;
using device::kStepThreads;

// Skip word and agreement hash.
constexpr uint32_t kSentControlWords = 3;

// Beside one bit per rank: the host said so, before the deadline.
constexpr uint32_t kStopped = 1u << 31;

__device__ __forceinline__ void StoreLine(uint64_t* line, uint32_t word,
                                          uint32_t epoch) {
  asm volatile("st.volatile.global.v2.u32 [%0], {%1, %2};" ::"l"(line),
               "r"(word), "r"(epoch)
               : "memory");
}

__device__ __forceinline__ uint2 LoadLine(const uint64_t* line) {
  uint2 value;
  asm volatile("ld.volatile.global.v2.u32 {%0, %1}, [%2];"
               : "=r"(value.x), "=r"(value.y)
               : "l"(line)
               : "memory");
  return value;
}

__device__ __forceinline__ uint64_t GlobalTimer() {
  uint64_t ns;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
  return ns;
}

// How long a thread goes on looking. The clock is read only after many looks.
class Patience {
 public:
  __device__ Patience(uint64_t deadline_ns, const StepGuard& guard)
      : deadline_ns_(deadline_ns), abort_(guard.abort[0]) {}

  __device__ bool Over() {
    if ((++looks_ & 127u) != 0) return false;
    const uint64_t now = GlobalTimer();
    if (start_ == 0) start_ = now;
    if (now - start_ > deadline_ns_) return true;
    stopped_ = abort_ != nullptr && (looks_ & 1023u) == 0 &&
               device::LoadVolatile(abort_) != 0;
    return stopped_;
  }
  // What to put down for `absent` ranks, one bit each, once it is over.
  __device__ uint32_t Reason(uint32_t absent) const {
    return stopped_ ? kStopped : absent;
  }

 private:
  const uint64_t deadline_ns_;
  const uint32_t* const abort_;
  uint64_t start_ = 0;
  uint32_t looks_ = 0;
  bool stopped_ = false;
};

// Where a rank's lines of this epoch begin in `owner`'s mailbox.
__device__ __forceinline__ uint64_t* Lines(const Mailboxes& boxes,
                                           uint32_t owner, uint32_t sender,
                                           uint32_t epoch) {
  return boxes.lines[owner] +
         uint64_t{(epoch & 1) * boxes.ranks + sender} * boxes.capacity;
}

// The k-th of the other ranks.
__device__ __forceinline__ uint32_t Peer(const Mailboxes& boxes, uint32_t k) {
  const uint32_t r = boxes.rank + 1 + k;
  return r < boxes.ranks ? r : r - boxes.ranks;
}

template <int kPeers>
__device__ __forceinline__ void Send(const Mailboxes& boxes, uint32_t line,
                                     uint32_t word, uint32_t epoch) {
#pragma unroll
  for (uint32_t k = 0; k < kPeers; ++k) {
    if (k + 1 >= boxes.ranks) break;
    StoreLine(Lines(boxes, Peer(boxes, k), boxes.rank, epoch) + line, word,
              epoch);
  }
}

// The maximum of `word` and the others' words, as int32. `missing`: the ranks
// whose word did not come, one bit each, or kStopped.
template <int kPeers>
__device__ __forceinline__ uint32_t ReceiveMax(const Mailboxes& boxes,
                                               uint32_t line, uint32_t word,
                                               uint32_t epoch,
                                               const StepGuard& guard,
                                               uint32_t* missing) {
  Patience patience(boxes.deadline_ns, guard);
  while (true) {
    uint2 got[kPeers];
#pragma unroll
    for (uint32_t k = 0; k < kPeers; ++k) {
      if (k + 1 >= boxes.ranks) {
        got[k] = make_uint2(word, epoch);
        continue;
      }
      got[k] = LoadLine(Lines(boxes, boxes.rank, Peer(boxes, k), epoch) + line);
    }
    int32_t max = static_cast<int32_t>(word);
    uint32_t absent = 0;
#pragma unroll
    for (uint32_t k = 0; k < kPeers; ++k) {
      if (got[k].y != epoch) absent |= 1u << k;
      const int32_t other = static_cast<int32_t>(got[k].x);
      max = other > max ? other : max;
    }
    if (absent == 0) return static_cast<uint32_t>(max);
    if (patience.Over()) {
      uint32_t ranks = 0;
      for (uint32_t k = 0; k < kPeers; ++k) {
        if ((absent >> k) & 1u) ranks |= 1u << Peer(boxes, k);
      }
      *missing = patience.Reason(ranks);
      return word;
    }
  }
}

// One lane per word of a peer's control words; `mine` is this rank's.
__device__ __forceinline__ void ExchangeControl(
    const Mailboxes& boxes, uint32_t line, uint32_t mine, bool own_skip,
    uint32_t epoch, const StepGuard& guard, uint32_t group, uint32_t groups,
    BlockShared* shared, uint32_t* missing) {
  const uint32_t lane = threadIdx.x & 31u;
  const uint32_t word = lane % kSentControlWords;
  const uint32_t k = lane / kSentControlWords;
  bool differs = false, skip = own_skip;
  if (k + 1 < boxes.ranks) {
    const uint32_t peer = Peer(boxes, k);
    if (blockIdx.x == 0) {
      StoreLine(Lines(boxes, peer, boxes.rank, epoch) + line + word, mine,
                epoch);
    }
    const uint64_t* from = Lines(boxes, boxes.rank, peer, epoch) + line + word;
    Patience patience(boxes.deadline_ns, guard);
    uint2 got = LoadLine(from);
    while (got.y != epoch && !patience.Over()) got = LoadLine(from);
    if (got.y != epoch) {
      *missing = patience.Reason(1u << peer);
    } else if (word == 0) {
      skip = skip || got.x != 0;
    } else {
      differs = got.x != mine;
    }
  }
  differs = __any_sync(0xFFFFFFFFu, differs);
  skip = __any_sync(0xFFFFFFFFu, skip);
  // The other groups are this rank alone.
  for (uint32_t g = lane; g < groups; g += 32) {
    if (g == group ? skip : own_skip) {
      atomicOr(&shared->skip[g >> 5], 1u << (g & 31));
      shared->any_skip = 1;
    }
    if (g == group && differs) {
      atomicOr(&shared->disagree[g >> 5], 1u << (g & 31));
      shared->any_disagree = 1;
    }
  }
}

template <int kPeers>
__global__ void __launch_bounds__(kStepThreads,
                                  kPeers == 1 ? device::kStepBlocksPerSm : 1)
    FusedStepKernel(const __grid_constant__ ArenaView arena,
                    const __grid_constant__ GroupDescriptor group,
                    uint32_t group_index,
                    const __grid_constant__ Mailboxes boxes,
                    const uint32_t* skip_flag,
                    const __grid_constant__ StepGuard guard) {
  __shared__ BlockShared shared;
  const uint32_t slot = device::SlotOfThread();
  const uint32_t lane = threadIdx.x & 31u;
  const bool has_slot = !InControlWarp() && slot < arena.slots;
  const uint32_t position = slot - group.first_slot;
  const bool exchanged = has_slot && position < group.members;
  SlotWork work;
  uint32_t control_offset = 0;
  if (InControlWarp()) {
    if (lane < arena.groups) {
      control_offset = arena.group_descriptors[lane].control_offset;
    }
    device::ClearShared(arena.groups, &shared);
  } else if (has_slot) {
    work.descriptor = arena.descriptors[slot];
  }
  device::WaitForEarlierWork();

  const StepState step = *arena.step;
  uint32_t word = 0;
  bool own_skip = false;
  if (InControlWarp()) {
    own_skip = skip_flag != nullptr && *skip_flag != 0;
    word = arena.amax[group.control_offset + lane % kSentControlWords];
  } else if (has_slot) {
    if (exchanged) word = arena.amax[group.amax_offset + position];
    LoadSlot(arena, slot, &work);
  }
  // The same in every thread of the block.
  const bool replaced = step.layout != guard.layout;
  if (replaced || step.failed != 0) {
    if (replaced && threadIdx.x == 0) device::Report(guard, kReportLayout);
    return;
  }
  const uint32_t epoch = step.epoch + 1;
  if (exchanged) Send<kPeers>(boxes, position, word, epoch);

  uint32_t reduced = 0;
  uint32_t missing = 0;
  if (InControlWarp()) {
    if (lane % kSentControlWords == 0) word = own_skip ? 1 : 0;
    ExchangeControl(boxes, group.members, word, own_skip, epoch, guard,
                    group_index, arena.groups, &shared, &missing);
  } else if (has_slot) {
    work.amax = exchanged ? word : arena.amax[work.descriptor.amax_index];
    PlanSlot(arena, &work);
    reduced = exchanged ? ReceiveMax<kPeers>(boxes, position, word, epoch,
                                             guard, &missing)
                        : work.amax;
    reduced &= kFloatMagnitudeMask;
  }
  if (__syncthreads_or(missing != 0)) {
    for (uint32_t r = 0; r < boxes.ranks; ++r) {
      if ((missing >> r) & 1u) {
        device::Report(guard, kReportMissingRank + static_cast<int>(r));
      }
    }
    if (missing != 0) {
      // Who is missing is known to the host before that somebody is.
      __threadfence_system();
      device::Fail(arena, guard,
                   missing == kStopped ? kReportAborted : kReportTimedOut);
    }
    return;
  }

  device::FinishStep(arena, guard, step, /*exchanged=*/true, control_offset,
                     /*aborted=*/false, has_slot, slot, work, reduced, &shared);
}

auto KernelFor(uint32_t ranks) {
  return ranks <= 2 ? FusedStepKernel<1>
                    : FusedStepKernel<kMaxMailboxRanks - 1>;
}

}  // namespace

namespace cuda {

absl::Status LoadFusedStep(int device) {
  SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard, CudaDeviceGuard::Enter(device));
  cudaFuncAttributes attributes;
  SK_CUDA_RETURN_IF_ERROR(
      cudaFuncGetAttributes(&attributes, FusedStepKernel<1>));
  SK_CUDA_RETURN_IF_ERROR(cudaFuncGetAttributes(
      &attributes, FusedStepKernel<kMaxMailboxRanks - 1>));
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> FusedStepBlocks(int device, uint32_t ranks) {
  SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard, CudaDeviceGuard::Enter(device));
  int per_sm = 0, sms = 0;
  SK_CUDA_RETURN_IF_ERROR(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &per_sm, KernelFor(ranks), static_cast<int>(kStepThreads),
      /*dynamicSMemSize=*/0));
  SK_CUDA_RETURN_IF_ERROR(
      cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
  return static_cast<uint32_t>(per_sm * sms);
}

absl::Status FusedStep(int device, const ArenaView& arena,
                       const GroupDescriptor& group, uint32_t group_index,
                       const Mailboxes& mailboxes, const uint32_t* skip_flag,
                       const StepGuard& guard, Stream stream) {
  if (group.members + kSentControlWords > mailboxes.capacity) {
    return absl::InternalError(absl::StrCat("mailboxes of ", mailboxes.capacity,
                                            " lines, want ",
                                            group.members + kSentControlWords));
  }
  SK_ASSIGN_OR_RETURN(CudaDeviceGuard enter, CudaDeviceGuard::Enter(device));
  SK_CUDA_RETURN_IF_ERROR(scalekeeper::device::LaunchStep(
      KernelFor(mailboxes.ranks), device, BlockCount(arena.slots),
      AsCudaStream(stream), arena, group, group_index, mailboxes, skip_flag,
      guard));
  return absl::OkStatus();
}

}  // namespace cuda
}  // namespace scalekeeper
