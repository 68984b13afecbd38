// What a device keeps for Matmul: a cuBLASLt handle, plans, workspaces.
//
// Made on the first Matmul of a device, kept until the process ends. Threads:
// any.
//
// Workspaces. Each stream has 32 MiB for cuBLASLt and, where operands must be
// laid out anew, staging memory that grows to the largest call (at least
// doubling, so that it soon stops). What a captured graph may still point to is
// never freed: staging that was outgrown stays. So two graphs that were
// captured on one stream share memory and must not run at the same time; and a
// stream's work must be done before it is destroyed, since a new stream may get
// its handle, and with it its workspace. The lanes of grouped products are
// streams with workspaces of their own.
#ifndef SCALEKEEPER_GEMM_CUBLASLT_CONTEXT_H_
#define SCALEKEEPER_GEMM_CUBLASLT_CONTEXT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/buffer.h"
#include "base/cuda/handles_cuda.h"
#include "cuda_runtime_api.h"
#include "gemm/buffer_pool.h"
#include "gemm/capture_mode_cuda.h"
#include "gemm/cublaslt_handles.h"
#include "gemm/cublaslt_plan.h"
#include "gemm/fork_scope.h"
#include "gemm/matmul_plan_key.h"
#include "gemm/plan_file.h"

namespace scalekeeper {

// Hands out memory of another allocator also while a stream is captured.
class RelaxedAllocator : public Allocator {
 public:
  explicit RelaxedAllocator(Allocator* allocator) : allocator_(allocator) {}
  absl::StatusOr<void*> Allocate(size_t bytes) override {
    RelaxedCaptureMode relaxed;
    return allocator_->Allocate(bytes);
  }
  void Deallocate(void* data, size_t bytes) override {
    allocator_->Deallocate(data, bytes);
  }
  Device device() const override { return allocator_->device(); }

 private:
  Allocator* const allocator_;
};

// Memory of one stream. Hold `mutex` while a call's work is enqueued: another
// call's kernels must not come between those that share the staging memory.
class StreamWorkspace {
 public:
  static constexpr size_t kBytes = size_t{32} << 20;

  static absl::StatusOr<std::unique_ptr<StreamWorkspace>> Create(
      Allocator* allocator);

  std::mutex& mutex() { return mutex_; }
  void* data() { return memory_.data(); }
  // Where cuBLASLt sets AMAX_D.
  uint32_t* amax_word() {
    return reinterpret_cast<uint32_t*>(memory_.as<char>() + kBytes);
  }
  // alpha and beta of a product that reads them on the device.
  float* alpha_words() {
    return reinterpret_cast<float*>(memory_.as<char>() + kBytes + 64);
  }
  // `bytes` of staging memory, 256-byte aligned; the same until the next call.
  absl::StatusOr<char*> Staging(size_t bytes);
  // Memory of single calls on the stream; needs no lock.
  BufferPool* pool() { return &pool_; }

 private:
  StreamWorkspace(Allocator* allocator, Buffer memory)
      : allocator_(allocator), memory_(std::move(memory)), pool_(allocator) {}

  Allocator* const allocator_;
  std::mutex mutex_;
  Buffer memory_;
  std::vector<Buffer> staging_;  // the last is the one in use
  BufferPool pool_;
};

// Streams beside a caller's stream, for products that may run at once. Made for
// one stream, so that they may join its capture. Hold `mutex` while enqueuing,
// and use a ForkScope.
class StreamLanes : public ForkableLanes {
 public:
  static constexpr size_t kLanes = 4;  // the caller's stream is one of them

  // On the current device.
  static absl::StatusOr<std::unique_ptr<StreamLanes>> Create(
      cudaStream_t stream);

  std::mutex& mutex() { return mutex_; }
  absl::Status Mark() override;
  absl::Status Fork(size_t lane) override;
  absl::Status Join(size_t lane) override;
  cudaStream_t stream(size_t lane) const {
    return lane == 0 ? stream_ : side_[lane - 1].stream.get();
  }

 private:
  struct Side {
    CudaStream stream;
    CudaEvent done;
  };
  explicit StreamLanes(cudaStream_t stream) : stream_(stream) {}

  const cudaStream_t stream_;
  std::mutex mutex_;
  CudaEvent forked_;
  std::vector<Side> side_;
};

class MatmulContext {
 public:
  // Of CUDA device `device`, made on the first call. FailedPrecondition when
  // there is no such device.
  static absl::StatusOr<MatmulContext*> Get(int device);

  int device() const { return device_; }
  cublasLtHandle_t handle() const { return handle_.get(); }
  const ChipIdentity& chip() const { return chip_; }
  int compute_capability() const { return compute_capability_; }

  absl::StatusOr<StreamWorkspace*> Workspace(cudaStream_t stream);
  absl::StatusOr<StreamLanes*> Lanes(cudaStream_t stream);

  // Null when there is none yet.
  MatmulPlan* FindPlan(const MatmulPlanKey& key) const;
  // Or that which another thread has made by now.
  absl::StatusOr<MatmulPlan*> MakePlan(const MatmulPlanKey& key);

  // The choices made so far; and choices for keys that have no plan yet.
  std::vector<PlanRecord> Choices() const;
  void Adopt(const std::vector<PlanRecord>& records);

 private:
  // cudaStreamPerThread is a different stream in each thread.
  using StreamKey = std::pair<cudaStream_t, std::thread::id>;
  struct StreamKeyHash {
    size_t operator()(const StreamKey& key) const {
      return std::hash<void*>()(key.first) ^
             std::hash<std::thread::id>()(key.second);
    }
  };

  static StreamKey KeyOf(cudaStream_t stream);

  explicit MatmulContext(int device) : device_(device) {}
  static absl::StatusOr<std::unique_ptr<MatmulContext>> Create(int device);

  const int device_;
  std::unique_ptr<RelaxedAllocator> allocator_;
  CublasLtHandle handle_;
  ChipIdentity chip_;
  int compute_capability_ = 0;

  mutable std::mutex mutex_;  // of the maps; the values have their own
  absl::flat_hash_map<MatmulPlanKey, std::unique_ptr<MatmulPlan>> plans_;
  absl::flat_hash_map<MatmulPlanKey, cublasLtMatmulAlgo_t> adopted_;
  absl::flat_hash_map<StreamKey, std::unique_ptr<StreamWorkspace>,
                      StreamKeyHash>
      workspaces_;
  absl::flat_hash_map<StreamKey, std::unique_ptr<StreamLanes>, StreamKeyHash>
      lanes_;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_GEMM_CUBLASLT_CONTEXT_H_
