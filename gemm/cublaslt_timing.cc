#include "gemm/cublaslt_timing.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "base/buffer.h"
#include "base/cuda/handles_cuda.h"
#include "base/cuda/status_cuda.h"
#include "base/device_memory.h"
#include "base/status_macros.h"
#include "gemm/cublaslt_types.h"
#include "gemm/matmul_kernels_cuda.h"
#include "gemm/operand_layout.h"

namespace scalekeeper {
namespace {

constexpr int kRounds = 11;
// After these rounds, what was never faster than this is not run again.
constexpr int kQualifyingRounds = 2;
constexpr float kHopelessRatio = 1.15f;
constexpr float kHopelessMilliseconds = 0.005f;
constexpr int kWarmRuns = 3;
// More rounds for those that are this close to the best.
constexpr float kCloseRatio = 1.02f;
constexpr int kRunOffRounds = 12;

// Two runs of a GEMM on one device at once would time each other.
std::mutex& TimingMutex(int device) {
  static auto* const mutexes = new std::array<std::mutex, 64>;
  return (*mutexes)[static_cast<size_t>(device) % mutexes->size()];
}

// Operands like a plan's, with values of no one's.
class ScratchOperands {
 public:
  static absl::StatusOr<ScratchOperands> Create(const MatmulPlanKey& key,
                                                const MatmulSite& site);

  MatmulPointers Pointers(const MatmulPlanKey& key) {
    MatmulPointers p;
    p.a = a_.data();
    p.b = b_.data();
    p.d = d_.data();
    if (key.bias_type != MatmulPlanKey::kNoBias) p.bias = bias_.data();
    float* one = words_.as<float>();
    if (key.has(MatmulPlanKey::kScaled)) {
      p.a_scale = a_scale_.data();
      p.b_scale = b_scale_.data();
    }
    if (key.has(MatmulPlanKey::kDeviceAlpha)) p.alpha_beta = one;
    if (key.has(MatmulPlanKey::kQuantizedOut)) {
      p.d_scale = one;
      p.amax_d = words_.as<uint32_t>() + 1;
    }
    return p;
  }

  // Overwrites more than the L2 cache holds.
  absl::Status EvictCache(cudaStream_t stream) {
    SK_CUDA_RETURN_IF_ERROR(
        cudaMemsetAsync(flush_.data(), 0, flush_.size(), stream));
    return absl::OkStatus();
  }

 private:
  Buffer a_, b_, d_, bias_, a_scale_, b_scale_, words_, flush_;
};

absl::StatusOr<Buffer> RandomBuffer(Allocator* allocator, int64_t type_number,
                                    int64_t count, cudaStream_t stream) {
  const auto type = static_cast<cudaDataType_t>(type_number);
  SK_ASSIGN_OR_RETURN(
      Buffer buffer,
      Buffer::Allocate(allocator, static_cast<size_t>(count * BytesOf(type))));
  SK_RETURN_IF_ERROR(FillRandomOnDevice(type, buffer.data(), count, stream));
  return buffer;
}

absl::StatusOr<ScratchOperands> ScratchOperands::Create(
    const MatmulPlanKey& key, const MatmulSite& site) {
  SK_ASSIGN_OR_RETURN(Allocator * allocator,
                      DefaultAllocator(Device::Cuda(site.device)));
  ScratchOperands scratch;
  const int64_t a_columns = key.op_a == CUBLAS_OP_T ? key.m : key.k;
  const int64_t b_columns = key.op_b == CUBLAS_OP_T ? key.k : key.n;
  SK_ASSIGN_OR_RETURN(
      scratch.a_,
      RandomBuffer(allocator, key.a_type, key.lda * a_columns, site.stream));
  SK_ASSIGN_OR_RETURN(
      scratch.b_,
      RandomBuffer(allocator, key.b_type, key.ldb * b_columns, site.stream));
  SK_ASSIGN_OR_RETURN(scratch.d_, RandomBuffer(allocator, key.d_type,
                                               key.ldd * key.n, site.stream));
  if (key.bias_type != MatmulPlanKey::kNoBias) {
    SK_ASSIGN_OR_RETURN(scratch.bias_, RandomBuffer(allocator, key.bias_type,
                                                    key.m, site.stream));
  }
  if (key.has(MatmulPlanKey::kScaled)) {
    const auto scales = [&](int64_t mode, int64_t outer) {
      const int64_t bytes = internal::ScaleModeBytes(
          static_cast<internal::ScaleMode>(mode), outer, key.k);
      return RandomBuffer(allocator, CUDA_R_32F, (bytes + 3) / 4, site.stream);
    };
    SK_ASSIGN_OR_RETURN(scratch.a_scale_, scales(key.a_scale_mode, key.m));
    SK_ASSIGN_OR_RETURN(scratch.b_scale_, scales(key.b_scale_mode, key.n));
  }
  constexpr std::array<float, 2> kWords = {1.0f, 0.0f};
  SK_ASSIGN_OR_RETURN(scratch.words_,
                      Buffer::Allocate(allocator, sizeof(kWords)));
  SK_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(scratch.words_.data(), kWords.data(),
                                          sizeof(kWords), cudaMemcpyDefault,
                                          site.stream));
  int l2_bytes = 0;
  SK_CUDA_RETURN_IF_ERROR(
      cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, site.device));
  SK_ASSIGN_OR_RETURN(
      scratch.flush_,
      Buffer::Allocate(allocator, 2 * static_cast<size_t>(l2_bytes) + 256));
  return scratch;
}

// Milliseconds of an algorithm, one per round.
class Samples {
 public:
  void Add(float value) { values_.push_back(value); }
  float Fastest() const {
    return *std::min_element(values_.begin(), values_.end());
  }
  float Median() const {
    std::vector<float> sorted = values_;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }

 private:
  std::vector<float> values_;
};

struct Candidate {
  cublasLtMatmulAlgo_t algorithm;
  Samples cold;
  Samples warm;
  bool running = true;
  float loss = 0;  // of OrderByLoss
};

// Of one run in `runs` back to back; ends when the stream has done all that was
// queued.
absl::StatusOr<float> Time(const MatmulPlan& plan,
                           const cublasLtMatmulAlgo_t& algorithm, int runs,
                           const MatmulPointers& pointers,
                           const MatmulSite& site, const CudaEvent& start,
                           const CudaEvent& stop) {
  SK_CUDA_RETURN_IF_ERROR(cudaEventRecord(start.get(), site.stream));
  for (int i = 0; i < runs; ++i) {
    SK_CUBLAS_RETURN_IF_ERROR(plan.Enqueue(algorithm, pointers, site));
  }
  SK_CUDA_RETURN_IF_ERROR(cudaEventRecord(stop.get(), site.stream));
  SK_CUDA_RETURN_IF_ERROR(cudaEventSynchronize(stop.get()));
  float milliseconds = 0;
  SK_CUDA_RETURN_IF_ERROR(
      cudaEventElapsedTime(&milliseconds, start.get(), stop.get()));
  return milliseconds / static_cast<float>(runs);
}

// The fastest median of those that ran in every round.
float BestMedian(const std::vector<Candidate>& candidates,
                 Samples Candidate::* samples) {
  float best = std::numeric_limits<float>::infinity();
  for (const Candidate& candidate : candidates) {
    if (candidate.running) {
      best = std::min(best, (candidate.*samples).Median());
    }
  }
  return best;
}

// Those that still run first, by the larger of their two losses against the
// best.
void OrderByLoss(std::vector<Candidate>* candidates) {
  const float best_cold = BestMedian(*candidates, &Candidate::cold);
  const float best_warm = BestMedian(*candidates, &Candidate::warm);
  for (Candidate& candidate : *candidates) {
    candidate.loss = std::max(candidate.cold.Median() / best_cold,
                              candidate.warm.Median() / best_warm);
  }
  std::stable_sort(candidates->begin(), candidates->end(),
                   [](const Candidate& a, const Candidate& b) {
                     return std::make_pair(!a.running, a.loss) <
                            std::make_pair(!b.running, b.loss);
                   });
}

}  // namespace

absl::StatusOr<std::vector<cublasLtMatmulAlgo_t>> OrderByTime(
    MatmulPlan* plan, const std::vector<cublasLtMatmulAlgo_t>& candidates,
    const MatmulSite& site) {
  std::lock_guard<std::mutex> lock(TimingMutex(site.device));
  SK_ASSIGN_OR_RETURN(ScratchOperands scratch,
                      ScratchOperands::Create(plan->key(), site));
  const MatmulPointers pointers = scratch.Pointers(plan->key());
  SK_RETURN_IF_ERROR(plan->SetPointers(pointers));
  SK_ASSIGN_OR_RETURN(CudaEvent start, CreateCudaEvent());
  SK_ASSIGN_OR_RETURN(CudaEvent stop, CreateCudaEvent());

  // A first run loads the kernel, and shows which are refused after all.
  std::vector<Candidate> timed;
  for (const cublasLtMatmulAlgo_t& algorithm : candidates) {
    if (plan->Enqueue(algorithm, pointers, site) == CUBLAS_STATUS_SUCCESS) {
      timed.push_back({algorithm, {}, {}});
    }
  }
  SK_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(site.stream));

  const auto time = [&](const Candidate& candidate, int runs) {
    return Time(*plan, candidate.algorithm, runs, pointers, site, start, stop);
  };
  const auto run_round = [&](float* best) -> absl::Status {
    for (Candidate& candidate : timed) {
      if (!candidate.running) continue;
      SK_RETURN_IF_ERROR(scratch.EvictCache(site.stream));
      SK_ASSIGN_OR_RETURN(const float cold, time(candidate, 1));
      SK_ASSIGN_OR_RETURN(const float warm, time(candidate, kWarmRuns));
      candidate.cold.Add(cold);
      candidate.warm.Add(warm);
      *best = std::min(*best, cold);
    }
    return absl::OkStatus();
  };
  float best = std::numeric_limits<float>::infinity();
  for (int round = 0; round < kRounds; ++round) {
    SK_RETURN_IF_ERROR(run_round(&best));
    if (round + 1 < kQualifyingRounds) continue;
    for (Candidate& candidate : timed) {
      candidate.running = candidate.cold.Fastest() <=
                          kHopelessRatio * best + kHopelessMilliseconds;
    }
  }
  OrderByLoss(&timed);
  // The rounds so far tell those that are this close apart by chance.
  size_t close = 0;
  for (Candidate& candidate : timed) {
    candidate.running =
        candidate.running && candidate.loss <= kCloseRatio * timed[0].loss;
    close += candidate.running ? 1 : 0;
  }
  if (close > 1) {
    for (int round = 0; round < kRunOffRounds; ++round) {
      SK_RETURN_IF_ERROR(run_round(&best));
    }
    OrderByLoss(&timed);
  }
  std::vector<cublasLtMatmulAlgo_t> ordered;
  ordered.reserve(timed.size());
  for (const Candidate& candidate : timed) {
    ordered.push_back(candidate.algorithm);
  }
  return ordered;
}

}  // namespace scalekeeper
