#include "gemm/cublaslt_context.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/cuda/device_guard_cuda.h"
#include "base/cuda/status_cuda.h"
#include "base/device_memory.h"
#include "base/status_macros.h"
#include "gemm/capture_mode_cuda.h"
#include "gemm/matmul_kernels_cuda.h"
#include "gemm/scaled_kernels_cuda.h"

namespace scalekeeper {
namespace {

constexpr size_t kMaxDevices = 64;
constexpr size_t kWordBytes = Allocator::kAlignment;

cublasLtMatmulAlgo_t FromWords(const PlanRecord::Algorithm& words) {
  cublasLtMatmulAlgo_t algorithm;
  static_assert(sizeof(algorithm.data) == sizeof(words));
  std::memcpy(algorithm.data, words.data(), sizeof(words));
  return algorithm;
}

PlanRecord::Algorithm ToWords(const cublasLtMatmulAlgo_t& algorithm) {
  PlanRecord::Algorithm words;
  std::memcpy(words.data(), algorithm.data, sizeof(words));
  return words;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StreamWorkspace>> StreamWorkspace::Create(
    Allocator* allocator) {
  SK_ASSIGN_OR_RETURN(Buffer memory,
                      Buffer::Allocate(allocator, kBytes + kWordBytes));
  return std::unique_ptr<StreamWorkspace>(
      new StreamWorkspace(allocator, std::move(memory)));
}

absl::StatusOr<char*> StreamWorkspace::Staging(size_t bytes) {
  const size_t have = staging_.empty() ? 0 : staging_.back().size();
  if (have < bytes) {
    SK_ASSIGN_OR_RETURN(
        Buffer grown, Buffer::Allocate(allocator_, std::max(bytes, 2 * have)));
    staging_.push_back(std::move(grown));
  }
  return staging_.empty() ? nullptr : staging_.back().as<char>();
}

absl::StatusOr<std::unique_ptr<StreamLanes>> StreamLanes::Create(
    cudaStream_t stream) {
  std::unique_ptr<StreamLanes> lanes(new StreamLanes(stream));
  const auto event = []() -> absl::StatusOr<CudaEvent> {
    cudaEvent_t handle = nullptr;
    SK_CUDA_RETURN_IF_ERROR(
        cudaEventCreateWithFlags(&handle, cudaEventDisableTiming));
    return CudaEvent(handle);
  };
  SK_ASSIGN_OR_RETURN(lanes->forked_, event());
  for (size_t lane = 1; lane < kLanes; ++lane) {
    Side side;
    SK_ASSIGN_OR_RETURN(side.stream, CreateCudaStream());
    SK_ASSIGN_OR_RETURN(side.done, event());
    lanes->side_.push_back(std::move(side));
  }
  return lanes;
}

absl::Status StreamLanes::Mark() {
  SK_CUDA_RETURN_IF_ERROR(cudaEventRecord(forked_.get(), stream_));
  return absl::OkStatus();
}

absl::Status StreamLanes::Fork(size_t lane) {
  SK_CUDA_RETURN_IF_ERROR(cudaStreamWaitEvent(stream(lane), forked_.get(), 0));
  return absl::OkStatus();
}

absl::Status StreamLanes::Join(size_t lane) {
  const CudaEvent& done = side_[lane - 1].done;
  SK_CUDA_RETURN_IF_ERROR(cudaEventRecord(done.get(), stream(lane)));
  SK_CUDA_RETURN_IF_ERROR(cudaStreamWaitEvent(stream_, done.get(), 0));
  return absl::OkStatus();
}

absl::StatusOr<MatmulContext*> MatmulContext::Get(int device) {
  static auto* const contexts =
      new std::array<std::atomic<MatmulContext*>, kMaxDevices>{};
  static auto* const creating = new std::mutex;
  if (device < 0 || static_cast<size_t>(device) >= kMaxDevices) {
    return absl::FailedPreconditionError(
        absl::StrCat("Matmul: there is no device cuda:", device));
  }
  std::atomic<MatmulContext*>& slot = (*contexts)[static_cast<size_t>(device)];
  MatmulContext* context = slot.load(std::memory_order_acquire);
  if (context != nullptr) return context;
  std::lock_guard<std::mutex> lock(*creating);
  context = slot.load(std::memory_order_acquire);
  if (context == nullptr) {
    SK_ASSIGN_OR_RETURN(std::unique_ptr<MatmulContext> created, Create(device));
    context = created.release();  // for the rest of the process
    slot.store(context, std::memory_order_release);
  }
  return context;
}

absl::StatusOr<std::unique_ptr<MatmulContext>> MatmulContext::Create(
    int device) {
  std::unique_ptr<MatmulContext> context(new MatmulContext(device));
  SK_ASSIGN_OR_RETURN(Allocator* const allocator,
                      DefaultAllocator(Device::Cuda(device)));
  context->allocator_ = std::make_unique<RelaxedAllocator>(allocator);
  SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard, CudaDeviceGuard::Enter(device));
  RelaxedCaptureMode relaxed;
  SK_ASSIGN_OR_RETURN(context->handle_, CreateCublasLtHandle());
  LoadMatmulKernels();
  LoadScaledKernels();
  cudaDeviceProp properties;
  SK_CUDA_RETURN_IF_ERROR(cudaGetDeviceProperties(&properties, device));
  context->compute_capability_ = properties.major * 10 + properties.minor;
  context->chip_.name = properties.name;
  context->chip_.multiprocessors = properties.multiProcessorCount;
  context->chip_.cublaslt_version = cublasLtGetVersion();
  return context;
}

MatmulContext::StreamKey MatmulContext::KeyOf(cudaStream_t stream) {
  StreamKey key(stream, std::thread::id());
  if (stream == cudaStreamPerThread) key.second = std::this_thread::get_id();
  return key;
}

absl::StatusOr<StreamLanes*> MatmulContext::Lanes(cudaStream_t stream) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<StreamLanes>& lanes = lanes_[KeyOf(stream)];
  if (lanes == nullptr) {
    RelaxedCaptureMode relaxed;
    SK_ASSIGN_OR_RETURN(lanes, StreamLanes::Create(stream));
  }
  return lanes.get();
}

absl::StatusOr<StreamWorkspace*> MatmulContext::Workspace(cudaStream_t stream) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<StreamWorkspace>& workspace = workspaces_[KeyOf(stream)];
  if (workspace == nullptr) {
    SK_ASSIGN_OR_RETURN(workspace, StreamWorkspace::Create(allocator_.get()));
  }
  return workspace.get();
}

MatmulPlan* MatmulContext::FindPlan(const MatmulPlanKey& key) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = plans_.find(key);
  return it == plans_.end() ? nullptr : it->second.get();
}

absl::StatusOr<MatmulPlan*> MatmulContext::MakePlan(const MatmulPlanKey& key) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<MatmulPlan>& plan = plans_[key];
  if (plan == nullptr) {
    SK_ASSIGN_OR_RETURN(plan, MatmulPlan::Create(key));
    if (const auto it = adopted_.find(key); it != adopted_.end()) {
      plan->Preset(it->second);
    }
  }
  return plan.get();
}

std::vector<PlanRecord> MatmulContext::Choices() const {
  std::vector<PlanRecord> records;
  std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [key, plan] : plans_) {
    if (plan == nullptr) continue;  // its creation failed
    if (const auto chosen = plan->Chosen()) {
      records.push_back({key, ToWords(*chosen)});
    }
  }
  for (const auto& [key, algorithm] : adopted_) {
    if (plans_.contains(key)) continue;
    records.push_back({key, ToWords(algorithm)});
  }
  return records;
}

void MatmulContext::Adopt(const std::vector<PlanRecord>& records) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const PlanRecord& record : records) {
    adopted_[record.key] = FromWords(record.algorithm);
  }
}

}  // namespace scalekeeper
