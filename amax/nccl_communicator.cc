#include "amax/nccl_communicator.h"

#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "amax/device_group.h"
#include "amax/nccl_handle.h"
#include "amax/nccl_mailboxes.h"
#include "amax/nccl_status.h"
#include "base/cuda/device_guard_cuda.h"
#include "base/cuda/handles_cuda.h"
#include "base/cuda/status_cuda.h"
#include "base/status_macros.h"
#include "cuda_runtime_api.h"

namespace scalekeeper {
namespace {

// A kernel that exchanges by itself notices its own deadline; the host gives it
// this much more before it acts.
constexpr absl::Duration kKernelsFirst = absl::Seconds(2);
// For kernels that were told to stop.
constexpr absl::Duration kAfterwards = absl::Seconds(10);
// Bytes. Growing frees, and freeing waits for the device.
constexpr size_t kUsualStaging = 64 << 10;

// Lets this thread ask about events while another stream is being captured.
class AskDuringCapture {
 public:
  AskDuringCapture() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~AskDuringCapture() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

// Device memory and pinned host memory of the same size, for words of host
// memory.
class Staging {
 public:
  ~Staging() { Free(); }
  absl::Status Reserve(size_t bytes) {
    if (bytes <= bytes_) return absl::OkStatus();
    Free();
    SK_CUDA_RETURN_IF_ERROR(cudaMalloc(&device_, bytes));
    SK_CUDA_RETURN_IF_ERROR(cudaMallocHost(&host_, bytes));
    bytes_ = bytes;
    return absl::OkStatus();
  }
  void* device() const { return device_; }
  void* host() const { return host_; }

 private:
  void Free() {
    if (device_ != nullptr) (void)cudaFree(device_);
    if (host_ != nullptr) (void)cudaFreeHost(host_);
    device_ = host_ = nullptr;
    bytes_ = 0;
  }

  void* device_ = nullptr;
  void* host_ = nullptr;
  size_t bytes_ = 0;
};

class NcclCommunicator : public Communicator, public DeviceGroup {
 public:
  static absl::StatusOr<std::unique_ptr<Communicator>> Make(
      std::shared_ptr<NcclHandle> handle) {
    SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard,
                        CudaDeviceGuard::Enter(handle->device()));
    std::unique_ptr<NcclCommunicator> made(
        new NcclCommunicator(std::move(handle)));
    SK_RETURN_IF_ERROR(made->abort_->Reserve(sizeof(uint32_t)));
    SK_CUDA_RETURN_IF_ERROR(
        cudaMemset(made->abort_->device(), 0, sizeof(uint32_t)));
    *static_cast<uint32_t*>(made->abort_->host()) = 1;
    SK_ASSIGN_OR_RETURN(made->stream_, CreateCudaStream());
    SK_ASSIGN_OR_RETURN(made->abort_stream_, CreateCudaStream());
    SK_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(nullptr));
    cudaEvent_t event = nullptr;
    SK_CUDA_RETURN_IF_ERROR(
        cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    made->watched_ = CudaEvent(event);
    SK_RETURN_IF_ERROR(made->staging_->Reserve(kUsualStaging));
    return std::unique_ptr<Communicator>(std::move(made));
  }

  ~NcclCommunicator() override {
    absl::StatusOr<CudaDeviceGuard> guard =
        CudaDeviceGuard::Enter(handle_->device());
    if (!broken_.ok()) {
      handle_->Abort();
      // Freeing waits for the device, which kernels of a borrowed ncclComm_t
      // may keep busy.
      if (!handle_->owned()) {
        (void)staging_.release();
        (void)abort_.release();
      }
    }
    staging_.reset();
    abort_.reset();
    watched_ = CudaEvent();
    stream_ = CudaStream();
  }

  int rank() const override { return handle_->rank(); }
  int size() const override { return handle_->size(); }
  DeviceGroup* device_group() override { return this; }

  absl::Status AllReduceMax(absl::Span<uint32_t> data, Stream stream) override {
    if (!broken_.ok()) return broken_;
    if (data.empty()) return absl::OkStatus();
    SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard,
                        CudaDeviceGuard::Enter(handle_->device()));
    cudaPointerAttributes attributes = {};
    SK_CUDA_RETURN_IF_ERROR(cudaPointerGetAttributes(&attributes, data.data()));
    const bool on_device = attributes.type == cudaMemoryTypeDevice ||
                           attributes.type == cudaMemoryTypeManaged;
    return on_device ? Reduce(data.data(), data.data(), data.size(), ncclUint32,
                              stream, "AllReduceMax")
                     : ReduceHostWords(data);
  }

  absl::Status AllGather(const void* send, void* receive, size_t bytes,
                         Stream stream) override {
    if (!broken_.ok()) return broken_;
    if (bytes == 0) return absl::OkStatus();
    SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard,
                        CudaDeviceGuard::Enter(handle_->device()));
    return Queued(ncclAllGather(send, receive, bytes, ncclUint8, handle_->get(),
                                AsCudaStream(stream)),
                  "ncclAllGather", bytes, stream, "AllGather");
  }

  Device device() const override { return Device::Cuda(handle_->device()); }

  absl::Status QueueMax(const uint32_t* send, uint32_t* receive, size_t count,
                        Stream stream, absl::string_view what) override {
    if (!broken_.ok()) return broken_;
    SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard,
                        CudaDeviceGuard::Enter(handle_->device()));
    return Reduce(send, receive, count, ncclInt32, stream, what);
  }

  absl::Status Poll() override {
    if (!broken_.ok()) return broken_;
    if (absl::Status status = handle_->AsyncError(); !status.ok()) {
      return GiveUp(std::move(status), /*running=*/true);
    }
    if (!watching_) return absl::OkStatus();
    SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard,
                        CudaDeviceGuard::Enter(handle_->device()));
    const AskDuringCapture ask;
    const cudaError_t state = cudaEventQuery(watched_.get());
    if (state == cudaErrorNotReady) {
      (void)cudaGetLastError();
      if (absl::Now() - watched_since_ < handle_->deadline()) {
        return absl::OkStatus();
      }
      return GiveUp(Overdue(), /*running=*/true);
    }
    SK_CUDA_RETURN_IF_ERROR(state);
    watching_ = false;
    return absl::OkStatus();
  }

  absl::Status Wait(Stream stream) override {
    SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard,
                        CudaDeviceGuard::Enter(handle_->device()));
    return WaitFor(AsCudaStream(stream));
  }

  absl::Status WaitForDevice() override {
    SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard,
                        CudaDeviceGuard::Enter(handle_->device()));
    // A device cannot be asked as a stream can: a thread waits for it, which
    // outlives this call where kernels never end.
    const auto result =
        std::make_shared<std::atomic<cudaError_t>>(cudaErrorNotReady);
    std::thread([result, device = handle_->device()] {
      const cudaError_t entered = cudaSetDevice(device);
      result->store(entered == cudaSuccess ? cudaDeviceSynchronize() : entered);
    }).detach();
    return WaitFor(Query([result] { return result->load(); }));
  }

  const uint32_t* abort_word() const override {
    return static_cast<const uint32_t*>(abort_->device());
  }
  std::string MailboxObstacle() const override {
    return NcclMailboxObstacle(*handle_);
  }
  absl::StatusOr<std::unique_ptr<MailboxMemory>> MakeMailboxes(
      uint32_t capacity) override {
    if (!broken_.ok()) return broken_;
    auto made = MakeNcclMailboxes(handle_, this, capacity);
    if (absl::IsDeadlineExceeded(made.status())) {
      return GiveUp(made.status(), /*running=*/true);
    }
    return made;
  }

 private:
  explicit NcclCommunicator(std::shared_ptr<NcclHandle> handle)
      : handle_(std::move(handle)),
        abort_(std::make_unique<Staging>()),
        staging_(std::make_unique<Staging>()) {}

  absl::Status Reduce(const void* send, void* receive, size_t count,
                      ncclDataType_t type, Stream stream,
                      absl::string_view what) {
    return Queued(ncclAllReduce(send, receive, count, type, ncclMax,
                                handle_->get(), AsCudaStream(stream)),
                  "ncclAllReduce", count, stream, what);
  }

  // After a collective of `count` words or bytes was queued.
  absl::Status Queued(ncclResult_t result, absl::string_view call, size_t count,
                      Stream stream, absl::string_view what) {
    if (absl::Status status = handle_->Await(result, call); !status.ok()) {
      return GiveUp(
          absl::Status(status.code(),
                       absl::StrCat(DescribeReduction(what, sequence_, count),
                                    ": ", status.message())),
          /*running=*/true);
    }
    ++sequence_;
    if (watching_) return absl::OkStatus();
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    SK_CUDA_RETURN_IF_ERROR(
        cudaStreamIsCapturing(AsCudaStream(stream), &capture));
    if (capture != cudaStreamCaptureStatusNone) return absl::OkStatus();
    SK_CUDA_RETURN_IF_ERROR(
        cudaEventRecord(watched_.get(), AsCudaStream(stream)));
    watching_ = true;
    watched_since_ = absl::Now();
    watched_sequence_ = sequence_ - 1;
    watched_count_ = count;
    watched_name_.assign(what.data(), what.size());
    return absl::OkStatus();
  }

  absl::Status ReduceHostWords(absl::Span<uint32_t> data) {
    const size_t bytes = data.size() * sizeof(uint32_t);
    SK_RETURN_IF_ERROR(staging_->Reserve(bytes));
    std::memcpy(staging_->host(), data.data(), bytes);
    SK_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(staging_->device(),
                                            staging_->host(), bytes,
                                            cudaMemcpyDefault, stream_.get()));
    SK_RETURN_IF_ERROR(Reduce(staging_->device(), staging_->device(),
                              data.size(), ncclUint32, AsStream(stream_),
                              "words of the host"));
    SK_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(staging_->host(),
                                            staging_->device(), bytes,
                                            cudaMemcpyDefault, stream_.get()));
    if (absl::Status status = WaitFor(stream_.get()); !status.ok()) {
      // The copies may still be under way.
      (void)staging_.release();
      staging_ = std::make_unique<Staging>();
      return status;
    }
    if (!broken_.ok()) return broken_;
    std::memcpy(data.data(), staging_->host(), bytes);
    return absl::OkStatus();
  }

  // Tells without waiting whether some work is done: cudaErrorNotReady.
  using Query = std::function<cudaError_t()>;

  // Whether it is done within `limit`.
  absl::StatusOr<bool> Drained(const Query& query, absl::Duration limit) {
    const absl::Time end = absl::Now() + limit;
    Pause pause;
    while (true) {
      const cudaError_t state = query();
      if (state == cudaSuccess) return true;
      if (state != cudaErrorNotReady) SK_CUDA_RETURN_IF_ERROR(state);
      (void)cudaGetLastError();
      if (broken_.ok()) {
        if (absl::Status status = handle_->AsyncError(); !status.ok()) {
          (void)GiveUp(std::move(status), /*running=*/true);
          return false;
        }
      }
      if (absl::Now() >= end) return false;
      pause();
    }
  }

  absl::Status WaitFor(cudaStream_t stream) {
    return WaitFor(Query([stream] { return cudaStreamQuery(stream); }));
  }

  // OkStatus once the work is done, also that of a broken group.
  absl::Status WaitFor(const Query& query) {
    if (broken_.ok()) {
      SK_ASSIGN_OR_RETURN(const bool done,
                          Drained(query, handle_->deadline() + kKernelsFirst));
      if (done) return absl::OkStatus();
      if (broken_.ok()) {
        // Kernels that look at the word stop by themselves; NCCL's do not.
        (void)GiveUp(Overdue(), /*running=*/false);
        SK_ASSIGN_OR_RETURN(const bool stopped,
                            Drained(query, absl::Seconds(1)));
        if (stopped) return absl::OkStatus();
        handle_->Abort();
      }
    }
    SK_ASSIGN_OR_RETURN(const bool done, Drained(query, kAfterwards));
    if (done) return absl::OkStatus();
    return absl::Status(
        broken_.code(),
        absl::StrCat(
            broken_.message(), "; its kernels still run",
            handle_->owned() ? "" : ": abort the borrowed ncclComm_t"));
  }

  std::string DescribeReduction(absl::string_view what, uint64_t sequence,
                                size_t count) const {
    return absl::StrCat(what, ": NCCL collective ", sequence, " of ", count,
                        what == "AllGather" ? " bytes" : " words", " on rank ",
                        rank(), " of ", size());
  }

  absl::Status Overdue() const {
    return absl::DeadlineExceededError(absl::StrCat(
        DescribeReduction(watched_name_,
                          watching_ ? watched_sequence_ : sequence_,
                          watched_count_),
        " was not done within ", absl::FormatDuration(handle_->deadline()),
        ": another rank did not come"));
  }

  // `running`: NCCL's kernels may wait for ever.
  absl::Status GiveUp(absl::Status status, bool running) {
    if (!broken_.ok()) return broken_;
    broken_ = std::move(status);
    handle_->MarkBroken();
    RaiseAbortWord();  // before its kernels end and what follows them begins
    if (running) handle_->Abort();
    return broken_;
  }

  // By a copy beside the kernels that run. Where that fails the device is lost,
  // and nothing that is queued will run.
  void RaiseAbortWord() {
    absl::StatusOr<CudaDeviceGuard> guard =
        CudaDeviceGuard::Enter(handle_->device());
    const AskDuringCapture ask;
    (void)cudaMemcpyAsync(abort_->device(), abort_->host(), sizeof(uint32_t),
                          cudaMemcpyHostToDevice, abort_stream_.get());
    const absl::Time end = absl::Now() + kAfterwards;
    Pause pause;
    while (cudaStreamQuery(abort_stream_.get()) == cudaErrorNotReady &&
           absl::Now() < end) {
      pause();
    }
    (void)cudaGetLastError();
  }

  const std::shared_ptr<NcclHandle> handle_;
  std::unique_ptr<Staging> abort_;  // one word
  CudaStream abort_stream_;
  CudaStream stream_;
  std::unique_ptr<Staging> staging_;
  absl::Status broken_;
  uint64_t sequence_ = 0;  // reductions queued

  // The oldest queued reduction that is not known to be done.
  bool watching_ = false;
  CudaEvent watched_;
  absl::Time watched_since_;
  uint64_t watched_sequence_ = 0;
  size_t watched_count_ = 0;
  std::string watched_name_;
};

}  // namespace

absl::Status Validate(const NcclCommunicatorOptions& options) {
  if (options.deadline > absl::ZeroDuration()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("options.deadline: got ",
                   absl::FormatDuration(options.deadline), ", want > 0"));
}

absl::StatusOr<std::unique_ptr<Communicator>> BorrowNcclCommunicator(
    ncclComm_t comm, const NcclCommunicatorOptions& options) {
  SK_RETURN_IF_ERROR(Validate(options));
  SK_ASSIGN_OR_RETURN(std::shared_ptr<NcclHandle> handle,
                      NcclHandle::Borrow(comm, options.deadline));
  return NcclCommunicator::Make(std::move(handle));
}

absl::StatusOr<std::unique_ptr<Communicator>> CreateNcclCommunicator(
    const ncclUniqueId& id, int rank, int size, int device,
    const NcclCommunicatorOptions& options) {
  SK_RETURN_IF_ERROR(Validate(options));
  SK_ASSIGN_OR_RETURN(
      std::shared_ptr<NcclHandle> handle,
      NcclHandle::Create(id, rank, size, device, options.deadline));
  return NcclCommunicator::Make(std::move(handle));
}

}  // namespace scalekeeper
