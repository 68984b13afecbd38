// One GEMM shape prepared for cuBLASLt: descriptors, and the algorithms that
// may serve it, the fastest first.
//
// Algorithms. The first Run asks the heuristic for up to 16 answers and times
// them: random operands in memory of its own, L2 cache cold and warm, rounds
// over all of them so that a changing clock hits all alike, medians decide
// (gemm/cublaslt_timing.h). That first
// Run allocates and waits for the stream; where the memory is not there, the
// heuristic's order stands. A plan that is first run while its stream is
// captured takes that order too, and is timed by its first Run outside a
// capture. So does a deterministic plan for good: the choice itself is then the
// same everywhere. What the real call refuses is dropped, and the next is
// taken.
//
// A split K adds partial sums in float32 and in a fixed order; only into a
// float32 D, and if not deterministic, in any way that cuBLASLt knows.
//
// After that a Run sets the pointers that changed and calls cublasLtMatmul.
//
// Varying plans serve calls whose rows or depth differ from step to step (the
// tokens of an expert): the key holds an upper bound, algorithms are chosen for
// it, and each Run says its extents.
//
// Threads: any; a mutex per plan covers its descriptor during the call. The
// bare calls (SetPointers, Enqueue, HeuristicAnswers) do not lock: they are for
// a plan of one's own, as timing and benchmarks have.
#ifndef SCALEKEEPER_GEMM_CUBLASLT_PLAN_H_
#define SCALEKEEPER_GEMM_CUBLASLT_PLAN_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cublasLt.h"
#include "cuda_runtime_api.h"
#include "gemm/cublaslt_handles.h"
#include "gemm/matmul_plan_key.h"

namespace scalekeeper {

// Pointers of one call, on the device, in cuBLASLt's terms (plan key). 16-byte
// aligned, except d_scale and amax_d.
struct MatmulPointers {
  const void* a = nullptr;
  const void* b = nullptr;
  void* d = nullptr;  // is also C when accumulating
  const void* bias = nullptr;
  const void* a_scale = nullptr;  // what the key's mode says
  const void* b_scale = nullptr;
  const float* d_scale = nullptr;
  uint32_t* amax_d = nullptr;         // is set, not accumulated
  const float* alpha_beta = nullptr;  // two words, with kDeviceAlpha
};

// The extents of one call: those of the key, or with kVarying smaller ones.
struct MatmulExtents {
  int64_t m = 0, n = 0, k = 0;
  int64_t lda = 0, ldb = 0, ldd = 0;

  static MatmulExtents Of(const MatmulPlanKey& key) {
    return {key.m, key.n, key.k, key.lda, key.ldb, key.ldd};
  }
  friend bool operator==(const MatmulExtents& a, const MatmulExtents& b) {
    return a.m == b.m && a.n == b.n && a.k == b.k && a.lda == b.lda &&
           a.ldb == b.ldb && a.ldd == b.ldd;
  }
};

// Where a plan runs: all borrowed.
struct MatmulSite {
  cublasLtHandle_t handle = nullptr;
  int device = 0;
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
  cudaStream_t stream = nullptr;
};

class MatmulPlan {
 public:
  static absl::StatusOr<std::unique_ptr<MatmulPlan>> Create(
      const MatmulPlanKey& key);

  // Enqueues the product; false when cuBLASLt takes no such combination on this
  // chip (nothing is enqueued then, now and in every later call; of a varying
  // plan, in calls with these extents).
  absl::StatusOr<bool> Run(const MatmulPointers& pointers,
                           const MatmulExtents& extents,
                           const MatmulSite& site);

  // True after a Run that returned false.
  bool refused() const { return refused_.load(std::memory_order_relaxed); }

  // The heuristic's answers for this key, in its order; `reduction_schemes` is
  // a mask of cublasLtReductionScheme_t.
  absl::StatusOr<std::vector<cublasLtMatmulAlgo_t>> HeuristicAnswers(
      const MatmulSite& site, uint32_t reduction_schemes);

  // Called before the first Run: an algorithm that was chosen earlier on such a
  // chip. If cuBLASLt does not know it, the plan chooses anew.
  void Preset(const cublasLtMatmulAlgo_t& algorithm);

  // The timed (or preset, or deterministic) choice; nullopt when there is none.
  std::optional<cublasLtMatmulAlgo_t> Chosen() const;

  // The bare call: pointers must have been set.
  cublasStatus_t Enqueue(const cublasLtMatmulAlgo_t& algorithm,
                         const MatmulPointers& pointers,
                         const MatmulSite& site) const;
  // Sets what differs from the last call.
  absl::Status SetPointers(const MatmulPointers& pointers);
  absl::Status SetExtents(const MatmulExtents& extents);

  const MatmulPlanKey& key() const { return key_; }

 private:
  enum class State { kNew, kUntimed, kFinal };

  explicit MatmulPlan(const MatmulPlanKey& key)
      : key_(key), extents_(MatmulExtents::Of(key)) {}

  absl::Status Initialize();
  uint32_t ReductionSchemes() const;
  absl::Status Choose(const MatmulSite& site);
  bool PresetWorks(const MatmulSite& site) const;
  // The first candidate that cuBLASLt takes; drops those before it.
  absl::StatusOr<bool> EnqueueFirst(const MatmulPointers& pointers,
                                    const MatmulSite& site);

  const MatmulPlanKey key_;
  std::atomic<bool> refused_{false};
  CublasLtMatmulDesc desc_;
  CublasLtMatrixLayout a_, b_, c_, d_;

  mutable std::mutex mutex_;  // of everything below, and of desc_
  MatmulPointers set_;        // what desc_ holds
  MatmulExtents extents_;     // what the layouts hold
  State state_ = State::kNew;
  std::optional<cublasLtMatmulAlgo_t> preset_;
  std::vector<cublasLtMatmulAlgo_t> candidates_;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_GEMM_CUBLASLT_PLAN_H_
