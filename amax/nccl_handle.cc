#include "amax/nccl_handle.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "amax/nccl_status.h"
#include "base/cuda/device_guard_cuda.h"
#include "base/status_macros.h"

namespace scalekeeper {
namespace {

// How long destruction waits for ranks that may be gone.
constexpr absl::Duration kGoodbye = absl::Seconds(5);

// The result once the communicator is no longer in progress, or ncclInProgress
// after `limit`.
ncclResult_t Settle(ncclComm_t comm, ncclResult_t result,
                    absl::Duration limit) {
  if (result != ncclSuccess && result != ncclInProgress) return result;
  const absl::Time end = absl::Now() + limit;
  Pause pause;
  // A call may have returned ncclSuccess and go on in the background.
  do {
    if (ncclCommGetAsyncError(comm, &result) != ncclSuccess) {
      return ncclInternalError;
    }
    if (result != ncclInProgress) return result;
    pause();
  } while (absl::Now() < end);
  return result;
}

}  // namespace

void Pause::operator()() {
  constexpr int kYields = 2000;
  if (++looks_ < kYields) {
    std::this_thread::yield();
  } else {
    absl::SleepFor(looks_ < 2 * kYields ? absl::Microseconds(20)
                                        : absl::Milliseconds(1));
  }
}

absl::Status NcclHandle::ReadPlace() {
  for (const auto& [result, call] :
       {std::make_pair(ncclCommCount(comm_, &size_), "ncclCommCount"),
        std::make_pair(ncclCommUserRank(comm_, &rank_), "ncclCommUserRank"),
        std::make_pair(ncclCommCuDevice(comm_, &device_),
                       "ncclCommCuDevice")}) {
    SK_RETURN_IF_ERROR(NcclStatus(result, call, comm_));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<NcclHandle>> NcclHandle::Borrow(
    ncclComm_t comm, absl::Duration deadline) {
  if (comm == nullptr) {
    return absl::InvalidArgumentError(
        "ncclComm_t: got null, want this rank's communicator");
  }
  std::shared_ptr<NcclHandle> handle(
      new NcclHandle(comm, /*owned=*/false, deadline));
  SK_RETURN_IF_ERROR(handle->ReadPlace());
  return handle;
}

absl::StatusOr<std::shared_ptr<NcclHandle>> NcclHandle::Create(
    const ncclUniqueId& id, int rank, int size, int device,
    absl::Duration deadline) {
  if (size < 1 || rank < 0 || rank >= size) {
    return absl::InvalidArgumentError(
        absl::StrCat("NCCL communicator: got rank ", rank, " of ", size,
                     ", want a rank of 0..size-1"));
  }
  SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard, CudaDeviceGuard::Enter(device));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  const ncclResult_t result =
      ncclCommInitRankConfig(&comm, size, id, rank, &config);
  if (comm == nullptr) {
    return NcclStatus(result == ncclSuccess ? ncclInternalError : result,
                      "ncclCommInitRankConfig", nullptr);
  }
  std::shared_ptr<NcclHandle> handle(
      new NcclHandle(comm, /*owned=*/true, deadline));
  handle->rank_ = rank;
  handle->size_ = size;
  handle->device_ = device;
  SK_RETURN_IF_ERROR(handle->Await(
      result,
      absl::StrCat("ncclCommInitRankConfig of rank ", rank, " of ", size)));
  return handle;
}

NcclHandle::~NcclHandle() {
  if (comm_ == nullptr || !owned_) return;
  absl::StatusOr<CudaDeviceGuard> guard = CudaDeviceGuard::Enter(device_);
  ncclResult_t state = ncclSuccess;
  if (ncclCommGetAsyncError(comm_, &state) == ncclSuccess &&
      state == ncclSuccess &&
      Settle(comm_, ncclCommFinalize(comm_), kGoodbye) == ncclSuccess) {
    (void)ncclCommDestroy(comm_);
  } else {
    (void)ncclCommAbort(comm_);
  }
}

absl::Status NcclHandle::Await(ncclResult_t result, absl::string_view call) {
  if (owned_) result = Settle(comm_, result, deadline_);
  if (result != ncclInProgress) return NcclStatus(result, call, comm_);
  return absl::DeadlineExceededError(
      absl::StrCat(call, ": the other ranks did not come within ",
                   absl::FormatDuration(deadline_)));
}

absl::Status NcclHandle::AsyncError() {
  if (comm_ == nullptr) return absl::OkStatus();
  ncclResult_t state = ncclSuccess;
  SK_RETURN_IF_ERROR(NcclStatus(ncclCommGetAsyncError(comm_, &state),
                                "ncclCommGetAsyncError", comm_));
  return NcclStatus(state, "NCCL in the background", comm_);
}

void NcclHandle::Abort() {
  if (comm_ == nullptr || !owned_) return;
  (void)ncclCommAbort(comm_);
  comm_ = nullptr;
}

}  // namespace scalekeeper
