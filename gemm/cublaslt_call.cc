#include "gemm/cublaslt_call.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/device_memory.h"
#include "base/status_macros.h"
#include "gemm/capture_mode_cuda.h"

namespace scalekeeper::internal {
namespace {

// The key of the class of calls that a call of a varying size belongs to: the
// next power of two.
MatmulPlanKey ClassOf(MatmulPlanKey key, Varying varying) {
  const auto class_of = [](int64_t n) {
    int64_t size = 16;
    while (size < n) size *= 2;
    return size;
  };
  if (varying == Varying::kRows) {
    key.n = class_of(key.n);
    if (key.op_b == CUBLAS_OP_T) key.ldb = key.n;
  } else {
    key.k = class_of(key.k);
    if (key.op_a == CUBLAS_OP_T) key.lda = key.k;
    if (key.op_b == CUBLAS_OP_N) key.ldb = key.k;
  }
  key.flags |= MatmulPlanKey::kVarying;
  return key;
}

// Views say which device they are on; whether that is true is asked before a
// plan is made, and not again, since asking costs as much as the rest of a
// call.
absl::Status CheckMemoryOf(const MatmulProblem& p) {
  RelaxedCaptureMode relaxed;
  const auto check = [&p](absl::string_view what, const void* data) {
    return CheckMemory(p.out.device, data, absl::StrCat(Name(p), ": ", what));
  };
  SK_RETURN_IF_ERROR(check("a", p.a.values.data));
  SK_RETURN_IF_ERROR(check("b", p.b.values.data));
  SK_RETURN_IF_ERROR(check("out", p.out.data));
  return p.bias ? check("bias", p.bias->data) : absl::OkStatus();
}

}  // namespace

MatmulSite SiteOf(const MatmulContext& context, StreamWorkspace* workspace,
                  cudaStream_t stream) {
  MatmulSite site;
  site.handle = context.handle();
  site.device = context.device();
  site.workspace = workspace->data();
  site.workspace_bytes = StreamWorkspace::kBytes;
  site.stream = stream;
  return site;
}

FinishArguments FinishingOf(const MatmulProblem& p) {
  FinishArguments finish;
  finish.out = p.out;
  if (p.codes) {
    finish.is_quantized = true;
    finish.quantized.format = p.codes->format;
    finish.quantized.slot = p.codes->slot;
  }
  if (p.bias) {
    finish.has_bias = true;
    finish.bias = *p.bias;
  }
  finish.activation = p.activation;
  finish.accumulate = p.accumulate;
  return finish;
}

absl::StatusOr<MatmulPlan*> PlanFor(const MatmulProblem& p,
                                    MatmulContext* context,
                                    const MatmulPlanKey& key) {
  const MatmulPlanKey& plan_key =
      p.varying == Varying::kNone ? key : ClassOf(key, p.varying);
  MatmulPlan* plan = context->FindPlan(plan_key);
  if (plan == nullptr) {
    SK_RETURN_IF_ERROR(CheckMemoryOf(p));
    SK_ASSIGN_OR_RETURN(plan, context->MakePlan(plan_key));
  }
  return plan->refused() ? nullptr : plan;
}

}  // namespace scalekeeper::internal
