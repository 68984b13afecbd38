// NcclHandle: one ncclComm_t, owned or borrowed, and waiting for its calls.
//
// An owned one is a non-blocking communicator: a call that needs other ranks
// returns ncclInProgress, and Await waits at most the deadline. Destroying it
// waits a few seconds for the other ranks, then aborts.
#ifndef SCALEKEEPER_AMAX_NCCL_HANDLE_H_
#define SCALEKEEPER_AMAX_NCCL_HANDLE_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "nccl.h"

namespace scalekeeper {

// Between two looks at something that is mostly over soon: yields at first,
// then sleeps up to a millisecond.
class Pause {
 public:
  void operator()();

 private:
  int looks_ = 0;
};

class NcclHandle {
 public:
  static absl::StatusOr<std::shared_ptr<NcclHandle>> Borrow(
      ncclComm_t comm, absl::Duration deadline);
  // Collective. On CUDA device `device`.
  static absl::StatusOr<std::shared_ptr<NcclHandle>> Create(
      const ncclUniqueId& id, int rank, int size, int device,
      absl::Duration deadline);
  ~NcclHandle();
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int device() const { return device_; }
  absl::Duration deadline() const { return deadline_; }
  bool owned() const { return owned_; }
  // Null after Abort.
  ncclComm_t get() const { return comm_; }

  // Waits, at most the deadline, until a call that returned `result` is in
  // effect: only then may the next one be made. DeadlineExceeded leaves the
  // communicator for the caller to abort.
  absl::Status Await(ncclResult_t result, absl::string_view call);
  // What went wrong in the background, or OkStatus.
  absl::Status AsyncError();
  // Stops its kernels and frees it, if it is owned.
  void Abort();

  // Once the group is given up no collective call may be made any more: it
  // would wait for ranks that do not come.
  void MarkBroken() { broken_ = true; }
  bool broken() const { return broken_; }

 private:
  NcclHandle(ncclComm_t comm, bool owned, absl::Duration deadline)
      : comm_(comm), owned_(owned), deadline_(deadline) {}
  absl::Status ReadPlace();

  ncclComm_t comm_;
  const bool owned_;
  const absl::Duration deadline_;
  int rank_ = 0;
  int size_ = 1;
  int device_ = 0;
  bool broken_ = false;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_NCCL_HANDLE_H_
