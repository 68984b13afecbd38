// What the kernels of a step share: one thread per slot, one warp more for the
// control words, and a commit by the block that finishes last.
//
// A block updates its slots or leaves them alone as a whole (kBlockSlots). The
// last block of a group to arrive makes what the next step needs: one 64-bit
// atomic per block and group counts it and adds its part of scale_hash, so that
// no block waits for another and no fence is needed.
//
// A block that finds the step given up (an expired deadline; StepGuard::abort,
// which block 0 alone looks at, as the last thing: it lies in host memory) does
// not arrive: then nothing is committed, later steps do nothing, and the host
// undoes the blocks that were updated (RepairSlotsHost).
//
// Loads come in as few rounds as possible, each of independent loads: a round
// costs about 0.6 us, more than all the arithmetic of a step. Descriptors are
// loaded before the work ahead in the stream has ended: no kernel writes them.
// What the next push needs of the window (PlanSlot) is loaded last and used
// after the block has arrived.
#ifndef SCALEKEEPER_AMAX_UPDATE_CUDA_CUH_
#define SCALEKEEPER_AMAX_UPDATE_CUDA_CUH_

#include <cstdint>

#include "amax/arena_view.h"
#include "amax/kernels.h"
#include "amax/update.h"

namespace scalekeeper::device {

inline constexpr uint32_t kMaxGroups = 256;
inline constexpr uint32_t kStepThreads = kBlockSlots + 32;
// 100,000 slots run at once on 132 SMs.
inline constexpr uint32_t kStepBlocksPerSm = 6;

// Per group: what the block found out, then its part of scale_hash.
struct BlockShared {
  // The sum of the low and of the high 24 bits of each hash.
  uint32_t hash_low[kMaxGroups];
  uint32_t hash_high[kMaxGroups];
  uint32_t skip[kMaxGroups / 32];
  uint32_t disagree[kMaxGroups / 32];
  uint32_t any_disagree;
  uint32_t any_skip;

  __device__ uint64_t Hash(uint32_t group) const {
    return (hash_low[group] + (uint64_t{hash_high[group]} << 24)) &
           kScaleHashMask;
  }
  __device__ bool Skips(uint32_t group) const {
    return (skip[group >> 5] >> (group & 31)) & 1;
  }
  __device__ bool Disagrees(uint32_t group) const {
    return (disagree[group >> 5] >> (group & 31)) & 1;
  }
};

__device__ __forceinline__ bool InControlWarp() {
  return threadIdx.x >= kBlockSlots;
}
__device__ __forceinline__ uint32_t SlotOfThread() {
  return blockIdx.x * kBlockSlots + threadIdx.x;
}

// Before a kernel touches memory that kernels before it in the stream wrote:
// with LaunchStep its blocks are placed while that work ends. What only copies
// from the host write is there before: a copy is never overlapped.
__device__ __forceinline__ void WaitForEarlierWork() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

// Queues `kernel` with kStepThreads threads per block.
template <typename... Params, typename... Args>
cudaError_t LaunchStep(void (*kernel)(Params...), int device, uint32_t blocks,
                       cudaStream_t stream, Args... args) {
  int major = 0;
  const cudaError_t error =
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (error != cudaSuccess) return error;
  cudaLaunchAttribute overlap = {};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(kStepThreads);
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = major >= 9 ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, Params(args)...);
}

__device__ __forceinline__ uint32_t LoadVolatile(const uint32_t* word) {
  return *static_cast<const volatile uint32_t*>(word);
}

__device__ __forceinline__ void Report(const StepGuard& guard, int word) {
  if (guard.report == nullptr) return;
  static_cast<volatile uint32_t*>(guard.report)[word] = 1;
}

// By the control warp, before it writes anything else to `shared`.
__device__ __forceinline__ void ClearShared(uint32_t groups,
                                            BlockShared* shared) {
  const uint32_t lane = threadIdx.x & 31u;
  for (uint32_t g = lane; g < groups; g += 32) {
    shared->hash_low[g] = 0;
    shared->hash_high[g] = 0;
  }
  if (lane < kMaxGroups / 32) {
    shared->skip[lane] = 0;
    shared->disagree[lane] = 0;
  }
  if (lane == 0) {
    shared->any_disagree = 0;
    shared->any_skip = 0;
  }
  __syncwarp();
}

// One thread of a block that gives the step up.
__device__ __forceinline__ void Fail(const ArenaView& arena,
                                     const StepGuard& guard, int report) {
  atomicExch(&arena.step->failed, 1u);
  Report(guard, report);
}

// After the decision is in `shared`: adds the block's part to every group.
// `hash` is the slot's ScaleHash, `group` its group; neither counts in threads
// without a slot. All threads of the block.
__device__ __forceinline__ void SumHashes(bool has_slot, uint32_t group,
                                          uint64_t hash, BlockShared* shared) {
  if (!InControlWarp() && __any_sync(0xFFFFFFFFu, has_slot)) {
    const uint32_t low = has_slot ? static_cast<uint32_t>(hash) & 0xFFFFFFu : 0;
    const uint32_t high = has_slot ? static_cast<uint32_t>(hash >> 24) : 0;
    // Slots are consecutive: lane 0 has one if any lane has.
    const uint32_t first = __shfl_sync(0xFFFFFFFFu, group, 0);
    if (__all_sync(0xFFFFFFFFu, !has_slot || group == first)) {
      const uint32_t low_sum = __reduce_add_sync(0xFFFFFFFFu, low);
      const uint32_t high_sum = __reduce_add_sync(0xFFFFFFFFu, high);
      if ((threadIdx.x & 31u) == 0) {
        atomicAdd(&shared->hash_low[first], low_sum);
        atomicAdd(&shared->hash_high[first], high_sum);
      }
    } else if (has_slot) {
      atomicAdd(&shared->hash_low[group], low);
      atomicAdd(&shared->hash_high[group], high);
    }
  }
  __syncthreads();
}

// By the control warp, after SumHashes.
__device__ __forceinline__ void ArriveAndCommit(
    const ArenaView& arena, const StepGuard& guard, const StepState& step,
    bool exchanged, uint32_t control_offset, bool aborted,
    const BlockShared& shared) {
  const bool applied = shared.any_disagree == 0;
  const uint32_t lane = threadIdx.x & 31u;
  if (lane == 0 && applied) {
    arena.block_sequences[blockIdx.x] = step.sequence + 1;
  }
  if (__any_sync(0xFFFFFFFFu, aborted)) {
    if (lane == 0) Fail(arena, guard, kReportAborted);
    return;
  }
  for (uint32_t g = lane; g < arena.groups; g += 32) {
    uint64_t hash = shared.Hash(g);
    if (gridDim.x > 1) {
      const unsigned long long before =
          atomicAdd(reinterpret_cast<unsigned long long*>(arena.arrivals + g),
                    (static_cast<unsigned long long>(hash) << 16) + 1);
      if ((before & 0xFFFFu) != gridDim.x - 1) continue;
      arena.arrivals[g] = 0;
      hash = ((before >> 16) + hash) & kScaleHashMask;
    }
    GroupState& group = arena.group_states[g];
    uint32_t* const own =
        g < 32 ? arena.amax + control_offset : OwnControl(arena, g);
    if (applied) {
      group.scale_hash = hash;
      group.skipped = shared.Skips(g) ? 1 : 0;
      WriteControl(own, hash, step.step + 1, step.phase);
    } else {
      own[0] = 0;
      if (shared.Disagrees(g)) group.ranks_disagree = 1;
    }
    if (g != 0) continue;
    StepState& next = *arena.step;
    next.applied = applied ? 1 : 0;
    if (exchanged) next.epoch = step.epoch + 1;
    if (!applied) {
      Report(guard, kReportDisagree);
      continue;
    }
    next.previous_step = step.step;
    next.step = step.step + 1;
    next.sequence = step.sequence + 1;
    if (shared.any_skip != 0) next.skipped_steps = step.skipped_steps + 1;
  }
}

// The rest of a step once the block knows what to do: all threads, after a
// __syncthreads that made `shared` known. `step` is the state at the kernel's
// beginning, `exchanged` says whether the step used up an epoch. Of the control
// warp: `control_offset` is that of the lane's first group, `aborted` that the
// lane saw the step given up. Of the others: `work` is planned, where the
// thread has a slot.
__device__ __forceinline__ void FinishStep(
    const ArenaView& arena, const StepGuard& guard, const StepState& step,
    bool exchanged, uint32_t control_offset, bool aborted, bool has_slot,
    uint32_t slot, const SlotWork& work, uint32_t reduced,
    BlockShared* shared) {
  const bool applies = has_slot && shared->any_disagree == 0;
  const SlotDescriptor& d = work.descriptor;
  SlotDecision decision;
  uint64_t hash = 0;
  if (applies) {
    decision = DecideSlot(work, reduced, shared->Skips(d.group));
    hash = ScaleHash(d.message_position, decision.scale);
  }
  SumHashes(has_slot, d.group, hash, shared);
  if (InControlWarp()) {
    ArriveAndCommit(arena, guard, step, exchanged, control_offset, aborted,
                    *shared);
  } else if (applies) {
    StoreSlot(arena, slot, work, decision, reduced, step.sequence);
  }
}

}  // namespace scalekeeper::device

#endif  // SCALEKEEPER_AMAX_UPDATE_CUDA_CUH_
