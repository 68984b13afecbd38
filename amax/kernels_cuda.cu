// Packing and the update, where the exchange is a collective of its own.
#include "absl/strings/str_cat.h"
#include "amax/kernels_cuda.h"
#include "amax/update_cuda.cuh"
#include "base/cuda/device_guard_cuda.h"
#include "base/cuda/handles_cuda.h"
#include "base/cuda/status_cuda.h"
#include "base/fp8_capability.h"
#include "base/status_macros.h"

namespace scalekeeper {
namespace {

using device::BlockShared;
using device::InControlWarp;
using device::kStepThreads;

__global__ void __launch_bounds__(256)
    PackKernel(ArenaView arena, const uint32_t* skip_flag) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < arena.slots) PackSlot(arena, i);
  if (i < arena.groups) {
    PackControl(arena, i, skip_flag != nullptr && *skip_flag != 0);
  }
}

__global__ void RaiseSkipKernel(ArenaView arena, const uint32_t* skip_flag) {
  const uint32_t g = threadIdx.x;
  if (g < arena.groups) OwnControl(arena, g)[0] = *skip_flag != 0 ? 1 : 0;
}

// Whether a step that was queued with this guard still may run. One report by
// the first thread that asks.
__device__ __forceinline__ bool MayRun(const ArenaView& arena,
                                       const StepGuard& guard) {
  const bool replaced = arena.step->layout != guard.layout;
  if (replaced && threadIdx.x == 0 && blockIdx.x == 0) {
    device::Report(guard, kReportLayout);
  }
  return !replaced && arena.step->failed == 0;
}

__device__ __forceinline__ void Keep(const ArenaView& arena,
                                     const uint32_t* skip_flag) {
  if (skip_flag != nullptr && *skip_flag != 0) *arena.kept_skip = 1;
}

// One block.
__global__ void CountStepKernel(const __grid_constant__ ArenaView arena,
                                int64_t interval, bool due,
                                const uint32_t* skip_flag,
                                const __grid_constant__ StepGuard guard) {
  if (!MayRun(arena, guard)) return;
  for (uint32_t g = threadIdx.x; g < arena.groups; g += blockDim.x) {
    CountControl(arena, g);
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  Keep(arena, skip_flag);
  ++arena.step->step;
  if ((arena.step->step % interval == 0) != due) {
    device::Report(guard, kReportInterval);
  }
}

// One thread.
__global__ void KeepSkipKernel(const __grid_constant__ ArenaView arena,
                               int64_t interval, const uint32_t* skip_flag,
                               const __grid_constant__ StepGuard guard) {
  if (!MayRun(arena, guard)) return;
  Keep(arena, skip_flag);
  if ((arena.step->step + 1) % interval != 0) {
    *arena.kept_skip = 1;
    device::Report(guard, kReportInterval);
  }
}

__global__ void __launch_bounds__(256)
    HoldKernel(const __grid_constant__ ArenaView arena,
               const uint32_t* skip_flag,
               const __grid_constant__ StepGuard guard) {
  if (!MayRun(arena, guard)) return;
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < arena.slots) HoldSlot(arena, i);
  if (i < arena.groups) {
    HoldControl(arena, i, skip_flag != nullptr && *skip_flag != 0);
  }
}

// What the groups' messages say, by the control warp. `first` is the lane's
// first group.
__device__ __forceinline__ void ReadControl(const ArenaView& arena,
                                            bool all_messages, bool own_skip,
                                            const GroupDescriptor& first,
                                            BlockShared* shared) {
  const uint32_t lane = threadIdx.x & 31u;
  for (uint32_t g = lane; g < arena.groups; g += 32) {
    const GroupDescriptor group =
        g == lane ? first : arena.group_descriptors[g];
    bool skip = own_skip;
    // A group without slots in this phase is not exchanged.
    if (all_messages || (group.exchanged != 0 && group.members != 0)) {
      const uint32_t* const control =
          arena.messages + group.message_offset + group.members;
      skip = (control[0] != 0) | own_skip;
      if (!RanksAgree(arena.amax + group.control_offset, control)) {
        atomicOr(&shared->disagree[g >> 5], 1u << (g & 31));
        shared->any_disagree = 1;
      }
    }
    if (skip) {
      atomicOr(&shared->skip[g >> 5], 1u << (g & 31));
      shared->any_skip = 1;
    }
  }
}

__global__ void __launch_bounds__(kStepThreads, device::kStepBlocksPerSm)
    UpdateKernel(const __grid_constant__ ArenaView arena, bool all_messages,
                 const uint32_t* skip_flag,
                 const __grid_constant__ StepGuard guard) {
  __shared__ BlockShared shared;
  const uint32_t slot = device::SlotOfThread();
  const uint32_t lane = threadIdx.x & 31u;
  const bool has_slot = !InControlWarp() && slot < arena.slots;
  SlotWork work;
  GroupDescriptor group;
  bool exchanged = true;
  if (InControlWarp()) {
    if (lane < arena.groups) group = arena.group_descriptors[lane];
    device::ClearShared(arena.groups, &shared);
  } else if (has_slot) {
    work.descriptor = arena.descriptors[slot];
    if (!all_messages) {
      exchanged = arena.group_descriptors[work.descriptor.group].exchanged != 0;
    }
  }
  device::WaitForEarlierWork();

  const StepState step = *arena.step;
  uint32_t reduced = 0;
  bool aborted = false;
  if (InControlWarp()) {
    if (blockIdx.x == 0 && lane < kMaxAbortWords &&
        guard.abort[lane] != nullptr) {
      aborted = device::LoadVolatile(guard.abort[lane]) != 0;
    }
    ReadControl(arena, all_messages, skip_flag != nullptr && *skip_flag != 0,
                group, &shared);
  } else if (has_slot) {
    const uint32_t message = arena.messages[work.descriptor.message_index];
    work.amax = arena.amax[work.descriptor.amax_index];
    LoadSlot(arena, slot, &work);
    PlanSlot(arena, &work);
    reduced = (exchanged ? message : work.amax) & kFloatMagnitudeMask;
  }
  // The same in every thread.
  const bool replaced = step.layout != guard.layout;
  if (replaced || step.failed != 0) {
    if (replaced && threadIdx.x == 0) device::Report(guard, kReportLayout);
    return;
  }
  __syncthreads();
  device::FinishStep(arena, guard, step, /*exchanged=*/false,
                     group.control_offset, aborted, has_slot, slot, work,
                     reduced, &shared);
}

// A thread per slot and one per group.
uint32_t ItemBlocks(const ArenaView& arena) {
  return BlockCount(arena.slots > arena.groups ? arena.slots : arena.groups);
}

}  // namespace

namespace cuda {

absl::Status ValidateAmaxDevice(int device) {
  int count = 0;
  SK_CUDA_RETURN_IF_ERROR(cudaGetDeviceCount(&count));
  if (device < 0 || device >= count) {
    return absl::FailedPreconditionError(absl::StrCat(
        "device cuda:", device, ": this machine has ", count, " CUDA devices"));
  }
  int major = 0, minor = 0;
  SK_CUDA_RETURN_IF_ERROR(cudaDeviceGetAttribute(
      &major, cudaDevAttrComputeCapabilityMajor, device));
  SK_CUDA_RETURN_IF_ERROR(cudaDeviceGetAttribute(
      &minor, cudaDevAttrComputeCapabilityMinor, device));
  SK_RETURN_IF_ERROR(CheckHasFp8(Device::Cuda(device), major * 10 + minor));
  // A kernel that is loaded at its first launch cannot be captured then.
  SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard, CudaDeviceGuard::Enter(device));
  cudaFuncAttributes attributes;
  SK_CUDA_RETURN_IF_ERROR(cudaFuncGetAttributes(&attributes, PackKernel));
  SK_CUDA_RETURN_IF_ERROR(cudaFuncGetAttributes(&attributes, RaiseSkipKernel));
  SK_CUDA_RETURN_IF_ERROR(cudaFuncGetAttributes(&attributes, UpdateKernel));
  SK_CUDA_RETURN_IF_ERROR(cudaFuncGetAttributes(&attributes, CountStepKernel));
  SK_CUDA_RETURN_IF_ERROR(cudaFuncGetAttributes(&attributes, KeepSkipKernel));
  SK_CUDA_RETURN_IF_ERROR(cudaFuncGetAttributes(&attributes, HoldKernel));
  return LoadFusedStep(device);
}

absl::Status PackMessages(int device, const ArenaView& arena,
                          const uint32_t* skip_flag, Stream stream) {
  SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard, CudaDeviceGuard::Enter(device));
  PackKernel<<<ItemBlocks(arena), kBlockSlots, 0, AsCudaStream(stream)>>>(
      arena, skip_flag);
  SK_CUDA_RETURN_IF_ERROR(cudaGetLastError());
  return absl::OkStatus();
}

absl::Status RaiseSkipWords(int device, const ArenaView& arena,
                            const uint32_t* skip_flag, Stream stream) {
  SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard, CudaDeviceGuard::Enter(device));
  RaiseSkipKernel<<<1, device::kMaxGroups, 0, AsCudaStream(stream)>>>(
      arena, skip_flag);
  SK_CUDA_RETURN_IF_ERROR(cudaGetLastError());
  return absl::OkStatus();
}

absl::Status CountStep(int device, const ArenaView& arena, int64_t interval,
                       bool due, const uint32_t* skip_flag,
                       const StepGuard& guard, Stream stream) {
  SK_ASSIGN_OR_RETURN(CudaDeviceGuard enter, CudaDeviceGuard::Enter(device));
  CountStepKernel<<<1, device::kMaxGroups, 0, AsCudaStream(stream)>>>(
      arena, interval, due, skip_flag, guard);
  SK_CUDA_RETURN_IF_ERROR(cudaGetLastError());
  return absl::OkStatus();
}

absl::Status KeepSkip(int device, const ArenaView& arena, int64_t interval,
                      const uint32_t* skip_flag, const StepGuard& guard,
                      Stream stream) {
  SK_ASSIGN_OR_RETURN(CudaDeviceGuard enter, CudaDeviceGuard::Enter(device));
  KeepSkipKernel<<<1, 1, 0, AsCudaStream(stream)>>>(arena, interval, skip_flag,
                                                    guard);
  SK_CUDA_RETURN_IF_ERROR(cudaGetLastError());
  return absl::OkStatus();
}

absl::Status HoldSlots(int device, const ArenaView& arena,
                       const uint32_t* skip_flag, const StepGuard& guard,
                       Stream stream) {
  SK_ASSIGN_OR_RETURN(CudaDeviceGuard enter, CudaDeviceGuard::Enter(device));
  HoldKernel<<<ItemBlocks(arena), kBlockSlots, 0, AsCudaStream(stream)>>>(
      arena, skip_flag, guard);
  SK_CUDA_RETURN_IF_ERROR(cudaGetLastError());
  return absl::OkStatus();
}

absl::Status UpdateSlots(int device, const ArenaView& arena,
                         UpdateSource source, const uint32_t* skip_flag,
                         const StepGuard& guard, Stream stream) {
  SK_ASSIGN_OR_RETURN(CudaDeviceGuard enter, CudaDeviceGuard::Enter(device));
  SK_CUDA_RETURN_IF_ERROR(scalekeeper::device::LaunchStep(
      UpdateKernel, device, BlockCount(arena.slots), AsCudaStream(stream),
      arena, source == UpdateSource::kMessages, skip_flag, guard));
  return absl::OkStatus();
}

absl::Status SynchronizeDevice(int device) {
  SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard, CudaDeviceGuard::Enter(device));
  SK_CUDA_RETURN_IF_ERROR(cudaDeviceSynchronize());
  return absl::OkStatus();
}

absl::StatusOr<bool> IsCapturing(int device, Stream stream) {
  SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard, CudaDeviceGuard::Enter(device));
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  SK_CUDA_RETURN_IF_ERROR(cudaStreamIsCapturing(AsCudaStream(stream), &status));
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace cuda
}  // namespace scalekeeper
