#include "amax/nccl_mailboxes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "amax/nccl_status.h"
#include "amax/nccl_version.h"
#include "base/cuda/device_guard_cuda.h"
#include "base/cuda/status_cuda.h"
#include "base/status_macros.h"
#include "cuda_runtime_api.h"
#include "nccl.h"
#include "nccl_device.h"

namespace scalekeeper {
namespace {

class NcclMailboxMemory : public MailboxMemory {
 public:
  explicit NcclMailboxMemory(std::shared_ptr<NcclHandle> handle)
      : handle_(std::move(handle)) {}
  ~NcclMailboxMemory() override {
    absl::StatusOr<CudaDeviceGuard> guard =
        CudaDeviceGuard::Enter(handle_->device());
    if (handle_->broken()) handle_->Abort();
    // A communicator that was aborted has taken its windows with it. Giving one
    // back is a collective call: where a rank is lost it is left mapped, and
    // the memory is leaked.
    if (window_ != nullptr && handle_->get() != nullptr) {
      if (handle_->broken() || abandoned_) return;
      (void)handle_->Await(ncclCommWindowDeregister(handle_->get(), window_),
                           "ncclCommWindowDeregister");
    }
    if (memory_ != nullptr) (void)ncclMemFree(memory_);
  }

  const Mailboxes& mailboxes() const override { return mailboxes_; }
  void Abandon() override { abandoned_ = true; }

  absl::Status Allocate(uint32_t capacity) {
    mailboxes_.rank = static_cast<uint32_t>(handle_->rank());
    mailboxes_.ranks = static_cast<uint32_t>(handle_->size());
    mailboxes_.capacity = capacity;
    mailboxes_.deadline_ns = static_cast<uint64_t>(absl::ToInt64Nanoseconds(
        std::min(handle_->deadline(), absl::Hours(24 * 365))));
    constexpr size_t kUnit = NCCL_WIN_REQUIRED_ALIGNMENT;
    bytes_ = (Mailboxes::Bytes(mailboxes_.ranks, capacity) + kUnit - 1) /
             kUnit * kUnit;
    SK_RETURN_IF_ERROR(NcclStatus(
        ncclMemAlloc(&memory_, bytes_),
        absl::StrCat("ncclMemAlloc of ", bytes_, " bytes"), handle_->get()));
    // Epoch 0 is never sent.
    SK_CUDA_RETURN_IF_ERROR(cudaMemset(memory_, 0, bytes_));
    SK_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(nullptr));
    return absl::OkStatus();
  }

  absl::Status Map() {
    const ncclResult_t result = ncclCommWindowRegister(
        handle_->get(), memory_, bytes_, &window_, NCCL_WIN_COLL_SYMMETRIC);
    SK_RETURN_IF_ERROR(handle_->Await(result, "ncclCommWindowRegister"));
    const ncclTeam_t team = ncclTeamLsa(handle_->get());
    cudaPointerAttributes attributes = {};
    if (window_ != nullptr) {
      SK_CUDA_RETURN_IF_ERROR(cudaPointerGetAttributes(&attributes, window_));
    }
    if (attributes.type != cudaMemoryTypeDevice ||
        team.nRanks != handle_->size() || team.rank != handle_->rank()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the ", handle_->size(), " ranks are not all on one NVLink domain (",
          team.nRanks, " of them can be reached)"));
    }
    ncclWindow_vidmem window;
    SK_CUDA_RETURN_IF_ERROR(
        cudaMemcpy(&window, window_, sizeof(window), cudaMemcpyDeviceToHost));
    for (size_t r = 0; r < mailboxes_.ranks; ++r) {
      mailboxes_.lines[r] = reinterpret_cast<uint64_t*>(
          window.lsaFlatBase + ((r * window.stride4G) << 32));
    }
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<NcclHandle> handle_;
  Mailboxes mailboxes_;
  size_t bytes_ = 0;
  void* memory_ = nullptr;
  ncclWindow_t window_ = nullptr;
  bool abandoned_ = false;
};

}  // namespace

std::string NcclMailboxObstacle(const NcclHandle& handle) {
  int loaded = 0;
  if (ncclGetVersion(&loaded) != ncclSuccess) {
    return "ncclGetVersion fails";
  }
  if (std::string obstacle = NcclVersionObstacle(loaded); !obstacle.empty()) {
    return obstacle;
  }
  if (handle.size() > kMaxMailboxRanks) {
    return absl::StrCat(handle.size(), " ranks, want at most ",
                        kMaxMailboxRanks);
  }
  return "";
}

absl::StatusOr<std::unique_ptr<MailboxMemory>> MakeNcclMailboxes(
    const std::shared_ptr<NcclHandle>& handle, Communicator* communicator,
    uint32_t capacity) {
  SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard,
                      CudaDeviceGuard::Enter(handle->device()));
  auto memory = std::make_unique<NcclMailboxMemory>(handle);
  const absl::Status allocated = memory->Allocate(capacity);
  uint32_t failed = allocated.ok() ? 0 : 1;
  SK_RETURN_IF_ERROR(
      communicator->AllReduceMax(absl::MakeSpan(&failed, 1), Stream{}));
  SK_RETURN_IF_ERROR(allocated);
  if (failed != 0) {
    return absl::ResourceExhaustedError(
        "another rank has no memory for its mailbox");
  }
  SK_RETURN_IF_ERROR(memory->Map());
  return memory;
}

}  // namespace scalekeeper
