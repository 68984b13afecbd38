#include "gemm/cublaslt_plan.h"

#include <utility>

#include "base/cuda/status_cuda.h"
#include "base/status_macros.h"
#include "gemm/capture_mode_cuda.h"
#include "gemm/cublaslt_timing.h"

namespace scalekeeper {
namespace {

constexpr int kMaxAnswers = 16;
constexpr uint32_t kAlignment = 16;  // bytes; of every operand

// The heuristic reads alignments from pointers that it never dereferences.
const void* AlignedExample() {
  alignas(2 * kAlignment) static constexpr char kBytes[2 * kAlignment] = {};
  return kBytes + kAlignment;
}

bool IsCapturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  // The legacy stream cannot be captured; asking about it while another stream
  // is captured is an error.
  if (cudaStreamIsCapturing(stream, &status) != cudaSuccess) {
    (void)cudaGetLastError();
    return true;
  }
  return status != cudaStreamCaptureStatusNone;
}

// A refusal of this algorithm, as opposed to a failure of the call.
bool IsRefusal(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED ||
         status == CUBLAS_STATUS_INVALID_VALUE ||
         status == CUBLAS_STATUS_ARCH_MISMATCH;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MatmulPlan>> MatmulPlan::Create(
    const MatmulPlanKey& key) {
  std::unique_ptr<MatmulPlan> plan(new MatmulPlan(key));
  SK_RETURN_IF_ERROR(plan->Initialize());
  return plan;
}

absl::Status MatmulPlan::Initialize() {
  const auto type = [](int64_t value) {
    return static_cast<cudaDataType_t>(value);
  };
  SK_ASSIGN_OR_RETURN(
      desc_, CreateMatmulDesc(static_cast<cublasComputeType_t>(key_.compute)));
  const cublasLtMatmulDesc_t desc = desc_.get();
  const int32_t op_a = static_cast<int32_t>(key_.op_a);
  const int32_t op_b = static_cast<int32_t>(key_.op_b);
  SK_RETURN_IF_ERROR(SetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, op_a));
  SK_RETURN_IF_ERROR(SetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSB, op_b));
  SK_RETURN_IF_ERROR(SetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE,
                                  static_cast<uint32_t>(key_.epilogue)));
  if (key_.has(MatmulPlanKey::kFastAccum)) {
    SK_RETURN_IF_ERROR(
        SetAttribute(desc, CUBLASLT_MATMUL_DESC_FAST_ACCUM, int8_t{1}));
  }
  if (key_.has(MatmulPlanKey::kScaled)) {
    SK_RETURN_IF_ERROR(SetAttribute(desc, CUBLASLT_MATMUL_DESC_A_SCALE_MODE,
                                    static_cast<int32_t>(key_.a_scale_mode)));
    SK_RETURN_IF_ERROR(SetAttribute(desc, CUBLASLT_MATMUL_DESC_B_SCALE_MODE,
                                    static_cast<int32_t>(key_.b_scale_mode)));
  }
  if (key_.has(MatmulPlanKey::kDeviceAlpha)) {
    SK_RETURN_IF_ERROR(
        SetAttribute(desc, CUBLASLT_MATMUL_DESC_POINTER_MODE,
                     static_cast<int32_t>(CUBLASLT_POINTER_MODE_DEVICE)));
  }
  if (key_.bias_type != MatmulPlanKey::kNoBias) {
    SK_RETURN_IF_ERROR(SetAttribute(desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
                                    static_cast<int32_t>(key_.bias_type)));
  }
  const bool a_is_transposed = op_a == CUBLAS_OP_T;
  const bool b_is_transposed = op_b == CUBLAS_OP_T;
  SK_ASSIGN_OR_RETURN(
      a_,
      CreateMatrixLayout(type(key_.a_type), a_is_transposed ? key_.k : key_.m,
                         a_is_transposed ? key_.m : key_.k, key_.lda));
  SK_ASSIGN_OR_RETURN(
      b_,
      CreateMatrixLayout(type(key_.b_type), b_is_transposed ? key_.n : key_.k,
                         b_is_transposed ? key_.k : key_.n, key_.ldb));
  SK_ASSIGN_OR_RETURN(
      c_, CreateMatrixLayout(type(key_.c_type), key_.m, key_.n, key_.ldd));
  SK_ASSIGN_OR_RETURN(
      d_, CreateMatrixLayout(type(key_.d_type), key_.m, key_.n, key_.ldd));
  return absl::OkStatus();
}

absl::Status MatmulPlan::SetPointers(const MatmulPointers& p) {
  const cublasLtMatmulDesc_t desc = desc_.get();
  const auto set = [desc](cublasLtMatmulDescAttributes_t attribute, auto* now,
                          auto* before) {
    return now == before ? absl::OkStatus()
                         : SetAttribute(desc, attribute, now);
  };
  SK_RETURN_IF_ERROR(
      set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, p.a_scale, set_.a_scale));
  SK_RETURN_IF_ERROR(
      set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, p.b_scale, set_.b_scale));
  SK_RETURN_IF_ERROR(
      set(CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, p.d_scale, set_.d_scale));
  SK_RETURN_IF_ERROR(
      set(CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, p.amax_d, set_.amax_d));
  SK_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias, set_.bias));
  set_ = p;
  return absl::OkStatus();
}

absl::Status MatmulPlan::SetExtents(const MatmulExtents& e) {
  if (e == extents_) return absl::OkStatus();
  const auto set = [](const CublasLtMatrixLayout& layout, int64_t rows,
                      int64_t cols, int64_t ld) -> absl::Status {
    SK_RETURN_IF_ERROR(SetAttribute(layout.get(), CUBLASLT_MATRIX_LAYOUT_ROWS,
                                    static_cast<uint64_t>(rows)));
    SK_RETURN_IF_ERROR(SetAttribute(layout.get(), CUBLASLT_MATRIX_LAYOUT_COLS,
                                    static_cast<uint64_t>(cols)));
    return SetAttribute(layout.get(), CUBLASLT_MATRIX_LAYOUT_LD, ld);
  };
  const bool a_is_transposed = key_.op_a == CUBLAS_OP_T;
  const bool b_is_transposed = key_.op_b == CUBLAS_OP_T;
  SK_RETURN_IF_ERROR(
      set(a_, a_is_transposed ? e.k : e.m, a_is_transposed ? e.m : e.k, e.lda));
  SK_RETURN_IF_ERROR(
      set(b_, b_is_transposed ? e.n : e.k, b_is_transposed ? e.k : e.n, e.ldb));
  SK_RETURN_IF_ERROR(set(c_, e.m, e.n, e.ldd));
  SK_RETURN_IF_ERROR(set(d_, e.m, e.n, e.ldd));
  extents_ = e;
  return absl::OkStatus();
}

cublasStatus_t MatmulPlan::Enqueue(const cublasLtMatmulAlgo_t& algorithm,
                                   const MatmulPointers& p,
                                   const MatmulSite& site) const {
  const float one = 1.0f;
  const float zero = 0.0f;
  const bool on_device = key_.has(MatmulPlanKey::kDeviceAlpha);
  const float* alpha = on_device ? p.alpha_beta : &one;
  const float* beta = on_device                              ? p.alpha_beta + 1
                      : key_.has(MatmulPlanKey::kAccumulate) ? &one
                                                             : &zero;
  // An 8-bit D has a C of another type, which beta = 0 never reads.
  const void* c = key_.c_type == key_.d_type ? p.d : nullptr;
  return cublasLtMatmul(site.handle, desc_.get(), alpha, p.a, a_.get(), p.b,
                        b_.get(), beta, c, c_.get(), p.d, d_.get(), &algorithm,
                        site.workspace, site.workspace_bytes, site.stream);
}

absl::StatusOr<std::vector<cublasLtMatmulAlgo_t>> MatmulPlan::HeuristicAnswers(
    const MatmulSite& site, uint32_t reduction_schemes) {
  SK_ASSIGN_OR_RETURN(CublasLtMatmulPreference preference,
                      CreateMatmulPreference());
  SK_RETURN_IF_ERROR(SetAttribute(preference.get(),
                                  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                  uint64_t{site.workspace_bytes}));
  for (cublasLtMatmulPreferenceAttributes_t attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    SK_RETURN_IF_ERROR(SetAttribute(preference.get(), attribute, kAlignment));
  }
  SK_RETURN_IF_ERROR(SetAttribute(preference.get(),
                                  CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                  reduction_schemes));
  // Scales, bias and amax must be there when the heuristic is asked.
  MatmulPointers example;
  const void* const aligned = AlignedExample();
  if (key_.has(MatmulPlanKey::kScaled)) {
    example.a_scale = example.b_scale = aligned;
  }
  if (key_.has(MatmulPlanKey::kQuantizedOut)) {
    example.d_scale = static_cast<const float*>(aligned);
    example.amax_d = static_cast<uint32_t*>(const_cast<void*>(aligned));
  }
  if (key_.bias_type != MatmulPlanKey::kNoBias) example.bias = aligned;
  SK_RETURN_IF_ERROR(SetPointers(example));

  std::vector<cublasLtMatmulHeuristicResult_t> results(kMaxAnswers);
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      site.handle, desc_.get(), a_.get(), b_.get(), c_.get(), d_.get(),
      preference.get(), kMaxAnswers, results.data(), &count);
  std::vector<cublasLtMatmulAlgo_t> answers;
  if (IsRefusal(status)) return answers;
  SK_RETURN_IF_ERROR(CublasStatus(status, "cublasLtMatmulAlgoGetHeuristic"));
  for (int i = 0; i < count; ++i) {
    const auto& result = results[static_cast<size_t>(i)];
    if (result.state == CUBLAS_STATUS_SUCCESS) answers.push_back(result.algo);
  }
  return answers;
}

void MatmulPlan::Preset(const cublasLtMatmulAlgo_t& algorithm) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (state_ == State::kNew) preset_ = algorithm;
}

std::optional<cublasLtMatmulAlgo_t> MatmulPlan::Chosen() const {
  std::lock_guard<std::mutex> lock(mutex_);
  if (state_ != State::kFinal || candidates_.empty()) return std::nullopt;
  return candidates_.front();
}

bool MatmulPlan::PresetWorks(const MatmulSite& site) const {
  cublasLtMatmulHeuristicResult_t result = {};
  return cublasLtMatmulAlgoCheck(site.handle, desc_.get(), a_.get(), b_.get(),
                                 c_.get(), d_.get(), &*preset_,
                                 &result) == CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <= site.workspace_bytes;
}

// Which ways of adding the partial sums of a split K are taken: float32 ones,
// in a fixed order, unless D is float32 itself and may be in any order.
uint32_t MatmulPlan::ReductionSchemes() const {
  constexpr uint32_t kFloat32InOrder =
      CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  return key_.has(MatmulPlanKey::kDeterministic) || key_.d_type != CUDA_R_32F
             ? kFloat32InOrder
             : uint32_t{CUBLASLT_REDUCTION_SCHEME_MASK};
}

absl::Status MatmulPlan::Choose(const MatmulSite& site) {
  SK_ASSIGN_OR_RETURN(std::vector<cublasLtMatmulAlgo_t> answers,
                      HeuristicAnswers(site, ReductionSchemes()));
  if (preset_ && PresetWorks(site)) {
    candidates_ = {*preset_};
    candidates_.insert(candidates_.end(), answers.begin(), answers.end());
    state_ = State::kFinal;
    return absl::OkStatus();
  }
  preset_.reset();
  candidates_ = std::move(answers);
  if (candidates_.size() < 2 || key_.has(MatmulPlanKey::kDeterministic)) {
    state_ = State::kFinal;
    return absl::OkStatus();
  }
  if (IsCapturing(site.stream)) {
    state_ = State::kUntimed;
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<cublasLtMatmulAlgo_t>> ordered =
      OrderByTime(this, candidates_, site);
  if (ordered.ok()) {
    candidates_ = *std::move(ordered);
  } else if (!absl::IsResourceExhausted(ordered.status())) {
    return ordered.status();
  }
  // Without memory to time in, the heuristic's own order stands.
  state_ = State::kFinal;
  return absl::OkStatus();
}

absl::StatusOr<bool> MatmulPlan::EnqueueFirst(const MatmulPointers& pointers,
                                              const MatmulSite& site) {
  if (key_.has(MatmulPlanKey::kVarying)) {
    // What is refused now may suit other extents.
    for (const cublasLtMatmulAlgo_t& candidate : candidates_) {
      const cublasStatus_t status = Enqueue(candidate, pointers, site);
      if (status == CUBLAS_STATUS_SUCCESS) return true;
      if (!IsRefusal(status)) return CublasStatus(status, "cublasLtMatmul");
    }
    return false;
  }
  while (!candidates_.empty()) {
    const cublasStatus_t status = Enqueue(candidates_.front(), pointers, site);
    if (status == CUBLAS_STATUS_SUCCESS) return true;
    if (!IsRefusal(status)) return CublasStatus(status, "cublasLtMatmul");
    candidates_.erase(candidates_.begin());
  }
  refused_.store(true, std::memory_order_relaxed);
  return false;
}

absl::StatusOr<bool> MatmulPlan::Run(const MatmulPointers& pointers,
                                     const MatmulExtents& extents,
                                     const MatmulSite& site) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::optional<RelaxedCaptureMode> relaxed;
  if (state_ != State::kFinal) relaxed.emplace();  // also loads a kernel
  if (state_ == State::kNew ||
      (state_ == State::kUntimed && !IsCapturing(site.stream))) {
    SK_RETURN_IF_ERROR(SetExtents(MatmulExtents::Of(key_)));
    SK_RETURN_IF_ERROR(Choose(site));
  }
  SK_RETURN_IF_ERROR(SetExtents(extents));
  SK_RETURN_IF_ERROR(SetPointers(pointers));
  return EnqueueFirst(pointers, site);
}

}  // namespace scalekeeper
