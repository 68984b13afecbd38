// How a Matmul becomes one cublasLtMatmul.
//
// cuBLASLt is column-major. Read so, our row-major D is D^T = b^T a^T: its A is
// our b as N x K, its B is our a as M x K, with K contiguous in both; how they
// are brought there is gemm/operand_layout.h. Whatever is copied or padded,
// the plan's key is that of the same product, so the bits are the same too.
//
// Direct or finished. Where the chip takes type, bias, activation and layout of
// `out`, the product goes straight into it. Else (also when the heuristic has
// no answer for it) it goes into float32 staging memory, and a kernel adds bias
// and accumulator, activates, rounds once and stores. What the chip does not
// multiply is emulated, if that is asked for (gemm/cublaslt_emulation.h).
#include "gemm/cublaslt_matmul.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/cuda/device_guard_cuda.h"
#include "base/cuda/handles_cuda.h"
#include "base/cuda/status_cuda.h"
#include "base/status_macros.h"
#include "gemm/cublaslt_call.h"
#include "gemm/cublaslt_context.h"
#include "gemm/cublaslt_emulation.h"
#include "gemm/cublaslt_operand.h"
#include "gemm/cublaslt_plan.h"
#include "gemm/cublaslt_types.h"
#include "gemm/custom_operands.h"
#include "gemm/fork_scope.h"
#include "gemm/matmul_kernels_cuda.h"
#include "gemm/native_product.h"
#include "gemm/operand_layout.h"
#include "gemm/plan_file.h"
#include "gemm/scaled_kernels_cuda.h"

namespace scalekeeper::internal {
namespace {

// Multiples that products of codes want of N for a high-precision D and for an
// 8-bit one; of M where b's scales (cuBLASLt's B) are blocks of rows; and what
// N and such an M are padded to, which suits every D.
constexpr int64_t kCodesCols = 8;
constexpr int64_t kCodesColsOfCodes = 16;
constexpr int64_t kBlockedRows = 16;
constexpr int64_t kCodesPadded = 16;

int64_t BitsOf(DType dtype) { return 8 * static_cast<int64_t>(SizeOf(dtype)); }

int64_t EpilogueOf(bool has_bias, Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return has_bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case Activation::kGelu:
      return has_bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    case Activation::kNone:
      break;
  }
  return has_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

// The types of `out` that a product of `type` operands can be stored in.
bool IsNativeOut(const MatmulInput& a, DType out) {
  return a.is_codes() || out == DType::kF32 || out == a.values.dtype;
}

// The type of bias that such a product's epilogue adds.
bool IsNativeBias(const MatmulProblem& p, const MatmulInput& a) {
  if (!a.is_codes()) return p.bias->dtype == p.out.dtype;
  return p.bias->dtype ==
         (p.out.dtype == DType::kF16 ? DType::kF16 : DType::kBF16);
}

// The slot's scale_inv into `out`, and its transpose.
absl::Status FinishCodes(const MatmulProblem& p, const uint32_t* observed,
                         cudaStream_t stream) {
  FoldArguments fold;
  fold.observed = observed;
  fold.slot = p.codes->slot;
  fold.row_wise_scale_inv = p.codes->row_wise_scale_inv;
  fold.column_wise_scale_inv = p.codes->column_wise_scale_inv;
  SK_RETURN_IF_ERROR(FoldOnDevice(fold, stream));
  if (p.codes->column_wise_codes == nullptr) return absl::OkStatus();
  PackArguments pack;
  pack.source = p.out.data;
  pack.destination = p.codes->column_wise_codes;
  pack.rows = pack.padded_rows = p.out.cols;
  pack.cols = pack.padded_cols = p.out.rows;
  pack.row_stride = 1;
  pack.col_stride = p.out.cols;
  return PackOnDevice(pack, stream);
}

// All that is done per element, for float32 sums (null: zeros).
absl::Status Finish(const MatmulProblem& p, const float* sums,
                    int64_t sums_row_stride, cudaStream_t stream) {
  FinishArguments finish = FinishingOf(p);
  finish.sums = sums;
  finish.sums_row_stride = sums_row_stride;
  SK_RETURN_IF_ERROR(FinishOnDevice(finish, stream));
  return p.codes ? FinishCodes(p, nullptr, stream) : absl::OkStatus();
}

// One call: the checked problem, where it runs, and what memory it has.
class Call {
 public:
  Call(const MatmulProblem& problem, MatmulContext* context,
       StreamWorkspace* workspace, cudaStream_t stream)
      : p_(problem),
        a_(problem.a),
        b_(problem.b.Transposed()),
        modes_(ChooseScaleModes(a_, b_, context->compute_capability())),
        context_(context),
        workspace_(workspace),
        site_(SiteOf(*context, workspace, stream)) {}

  // Whether the chip multiplies such operands.
  bool IsNative() const { return modes_.has_value(); }
  // The rest is for native ones.
  bool CanBeDirect() const;
  // False when cuBLASLt takes no such product; nothing is enqueued into `out`.
  absl::StatusOr<bool> RunDirect();
  absl::StatusOr<bool> RunFinished();

 private:
  // The product into `d` of type `d_type`, rows x cols after padding, and where
  // its operands lie.
  struct Product {
    cudaDataType_t d_type = CUDA_R_32F;
    int64_t rows = 0, cols = 0;
    int64_t ldd = 0;
    Placement a, b;
    PlacedScales a_scales, b_scales;
  };
  void PlaceOperands(Product* product, StagingLayout* layout) const;
  MatmulPlanKey KeyOf(const Product& product) const;
  absl::StatusOr<bool> Run(MatmulPlan* plan, const MatmulPlanKey& key,
                           const Product& product, char* staging,
                           MatmulPointers pointers) const;
  int64_t Depth() const { return RoundUp(a_.values.cols, DepthMultiple(a_)); }
  bool HasDeviceAlpha() const { return modes_->a == ScaleMode::kVec16Ue4m3; }

  const MatmulProblem& p_;
  const MatmulInput a_;  // M x K
  const MatmulInput b_;  // N x K
  const std::optional<ScaleModes> modes_;
  MatmulContext* const context_;
  StreamWorkspace* const workspace_;
  const MatmulSite site_;
};

bool Call::CanBeDirect() const {
  const TensorView& out = p_.out;
  if (p_.bias && !IsNativeBias(p_, a_)) return false;
  if (IsBlocked(modes_->a) && out.rows % kBlockedRows != 0) return false;
  // Products with blocks of scales round to D's type before they add C.
  if (p_.accumulate && out.dtype != DType::kF32 &&
      (IsBlocked(modes_->a) || IsBlocked(modes_->b))) {
    return false;
  }
  if (p_.codes) {
    return a_.is_codes() && IsAligned(out.data) &&
           modes_->a == ScaleMode::kScalar && out.cols % kCodesColsOfCodes == 0;
  }
  int64_t ld = 0;
  return IsNativeOut(a_, out.dtype) && IsAligned(out.data) &&
         IsTaken(out.cols, out.col_stride, out.rows, out.row_stride,
                 BitsOf(out.dtype), &ld) &&
         (!a_.is_codes() || out.cols % kCodesCols == 0);
}

void Call::PlaceOperands(Product* product, StagingLayout* layout) const {
  product->a = Place(a_, product->rows, Depth(), layout);
  product->b = Place(b_, product->cols, Depth(), layout);
  product->a_scales = PlaceScales(a_, modes_->a, product->a, layout);
  product->b_scales = PlaceScales(b_, modes_->b, product->b, layout);
}

MatmulPlanKey Call::KeyOf(const Product& product) const {
  const Placement& a = product.a;
  const Placement& b = product.b;
  MatmulPlanKey key;
  key.m = product.cols;
  key.n = product.rows;
  key.k = a.depth;
  key.lda = b.ld;
  key.ldb = a.ld;
  key.ldd = product.ldd;
  key.op_a = b.depth_fastest ? CUBLAS_OP_T : CUBLAS_OP_N;
  key.op_b = a.depth_fastest ? CUBLAS_OP_N : CUBLAS_OP_T;
  key.a_type = TypeOf(b_);
  key.b_type = TypeOf(a_);
  key.d_type = product.d_type;
  key.c_type = product.d_type;
  key.compute = key.b_type == CUDA_R_32F ? CUBLAS_COMPUTE_32F_FAST_TF32
                                         : CUBLAS_COMPUTE_32F;
  key.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  if (a_.is_codes()) {
    key.flags |= MatmulPlanKey::kScaled;
    key.a_scale_mode = static_cast<int64_t>(modes_->b);
    key.b_scale_mode = static_cast<int64_t>(modes_->a);
    if (p_.fast_accum && !IsBlocked(modes_->a) && !IsBlocked(modes_->b)) {
      key.flags |= MatmulPlanKey::kFastAccum;
    }
    if (HasDeviceAlpha()) key.flags |= MatmulPlanKey::kDeviceAlpha;
  }
  if (p_.deterministic) key.flags |= MatmulPlanKey::kDeterministic;
  return key;
}

absl::StatusOr<bool> Call::Run(MatmulPlan* plan, const MatmulPlanKey& key,
                               const Product& product, char* staging,
                               MatmulPointers pointers) const {
  const cudaStream_t stream = site_.stream;
  SK_ASSIGN_OR_RETURN(pointers.a, Bring(b_, product.b, staging, stream));
  SK_ASSIGN_OR_RETURN(pointers.b, Bring(a_, product.a, staging, stream));
  SK_ASSIGN_OR_RETURN(
      pointers.a_scale,
      BringScales(b_, product.b_scales, product.b, staging, stream));
  SK_ASSIGN_OR_RETURN(
      pointers.b_scale,
      BringScales(a_, product.a_scales, product.a, staging, stream));
  if (HasDeviceAlpha()) {
    float* words = workspace_->alpha_words();
    SK_RETURN_IF_ERROR(MakeAlphaOnDevice(
        a_.grid.scales.tensor_scale_inv, b_.grid.scales.tensor_scale_inv,
        key.has(MatmulPlanKey::kAccumulate) ? 1.0f : 0.0f, words, stream));
    pointers.alpha_beta = words;
  }
  return plan->Run(pointers, MatmulExtents::Of(key), site_);
}

absl::StatusOr<bool> Call::RunDirect() {
  StagingLayout layout;
  Product product;
  product.rows = p_.out.rows;
  product.cols = p_.out.cols;
  product.d_type =
      p_.codes ? CudaType(p_.codes->format) : CudaType(p_.out.dtype);
  (void)IsTaken(p_.out.cols, p_.out.col_stride, p_.out.rows, p_.out.row_stride,
                BitsOf(p_.out.dtype), &product.ldd);
  PlaceOperands(&product, &layout);
  MatmulPlanKey key = KeyOf(product);
  key.epilogue = EpilogueOf(p_.bias.has_value(), p_.activation);
  if (p_.accumulate) key.flags |= MatmulPlanKey::kAccumulate;
  if (p_.codes) {
    key.flags |= MatmulPlanKey::kQuantizedOut;
    key.c_type = CUDA_R_16BF;  // there is no 8-bit C
  }
  MatmulInput bias;
  Placement bias_place;
  if (p_.bias) {
    bias.values = *p_.bias;
    key.bias_type = TypeOf(bias);
    bias_place = Place(bias, 1, p_.out.cols, &layout);
  }

  SK_ASSIGN_OR_RETURN(MatmulPlan * plan, PlanFor(p_, context_, key));
  if (plan == nullptr) return false;
  SK_ASSIGN_OR_RETURN(char* staging, workspace_->Staging(layout.bytes()));
  MatmulPointers pointers;
  pointers.d = p_.out.data;
  if (p_.bias) {
    SK_ASSIGN_OR_RETURN(pointers.bias,
                        Bring(bias, bias_place, staging, site_.stream));
  }
  if (p_.codes) {
    pointers.d_scale = p_.codes->slot.scale;
    pointers.amax_d = workspace_->amax_word();
  }
  SK_ASSIGN_OR_RETURN(const bool taken,
                      Run(plan, key, product, staging, pointers));
  if (!taken || !p_.codes) return taken;
  SK_RETURN_IF_ERROR(FinishCodes(p_, workspace_->amax_word(), site_.stream));
  return true;
}

absl::StatusOr<bool> Call::RunFinished() {
  StagingLayout layout;
  Product product;
  product.rows =
      IsBlocked(modes_->a) ? RoundUp(p_.out.rows, kCodesPadded) : p_.out.rows;
  product.cols =
      a_.is_codes() ? RoundUp(p_.out.cols, kCodesPadded) : p_.out.cols;
  product.ldd = RoundUp(product.cols, 16 / BytesOf(product.d_type));
  PlaceOperands(&product, &layout);
  const size_t sums_offset =
      layout.Add(product.rows * product.ldd * BytesOf(product.d_type));

  const MatmulPlanKey key = KeyOf(product);
  SK_ASSIGN_OR_RETURN(MatmulPlan * plan, PlanFor(p_, context_, key));
  if (plan == nullptr) return false;
  SK_ASSIGN_OR_RETURN(char* staging, workspace_->Staging(layout.bytes()));
  MatmulPointers pointers;
  pointers.d = staging + sums_offset;
  SK_ASSIGN_OR_RETURN(const bool taken,
                      Run(plan, key, product, staging, pointers));
  if (!taken) return false;
  SK_RETURN_IF_ERROR(Finish(p_, static_cast<const float*>(pointers.d),
                            product.ldd, site_.stream));
  return true;
}

absl::Status NotNative(const MatmulProblem& p, const MatmulContext& context) {
  return RefuseProduct(p, context.chip(), context.compute_capability());
}

// Enqueues one product on a stream of the current device.
absl::Status Multiply(const MatmulProblem& p, MatmulContext* context,
                      cudaStream_t stream) {
  if (p.out.empty()) {
    return p.codes ? FinishCodes(p, nullptr, stream) : absl::OkStatus();
  }
  if (p.a.values.cols == 0) return Finish(p, nullptr, 0, stream);
  SK_ASSIGN_OR_RETURN(StreamWorkspace * workspace, context->Workspace(stream));
  std::lock_guard<std::mutex> lock(workspace->mutex());
  Call call(p, context, workspace, stream);
  if (call.IsNative()) {
    if (call.CanBeDirect()) {
      SK_ASSIGN_OR_RETURN(const bool taken, call.RunDirect());
      if (taken) return absl::OkStatus();
    }
    SK_ASSIGN_OR_RETURN(const bool taken, call.RunFinished());
    if (taken) return absl::OkStatus();
  }
  if (!p.emulate) return NotNative(p, *context);
  SK_RETURN_IF_ERROR(MultiplyEmulated(
      p, context, SiteOf(*context, workspace, stream), workspace));
  return p.codes ? FinishCodes(p, nullptr, stream) : absl::OkStatus();
}

// An error before anything is enqueued where one of several would fail.
absl::Status CheckNative(const MatmulProblem& p, const MatmulContext& context) {
  if (p.emulate || p.out.empty() || p.a.values.cols == 0) {
    return absl::OkStatus();
  }
  const bool is_native =
      ChooseScaleModes(p.a, p.b, context.compute_capability()).has_value();
  return is_native ? absl::OkStatus() : NotNative(p, context);
}

// One after the other: a maker is other people's code, which must find none of
// our locks held.
absl::Status MultiplyCustom(absl::Span<const MatmulProblem> problems,
                            MatmulContext* context, Stream stream) {
  SK_ASSIGN_OR_RETURN(StreamWorkspace * workspace,
                      context->Workspace(AsCudaStream(stream)));
  CustomOperands customs(workspace->pool(), DType::kBF16, stream);
  for (const MatmulProblem& p : problems) {
    MatmulProblem plain = p;
    SK_RETURN_IF_ERROR(customs.Read(&plain));
    SK_RETURN_IF_ERROR(Multiply(plain, context, AsCudaStream(stream)));
  }
  return absl::OkStatus();
}

absl::Status MultiplyAtOnce(absl::Span<const MatmulProblem> problems,
                            MatmulContext* context, Stream stream) {
  SK_ASSIGN_OR_RETURN(StreamLanes * lanes,
                      context->Lanes(AsCudaStream(stream)));
  std::lock_guard<std::mutex> lock(lanes->mutex());
  const size_t count = std::min(StreamLanes::kLanes, problems.size());
  ForkScope scope(lanes);
  SK_RETURN_IF_ERROR(scope.Fork(count));
  for (size_t i = 0; i < problems.size(); ++i) {
    SK_RETURN_IF_ERROR(
        Multiply(problems[i], context, lanes->stream(i % count)));
  }
  return scope.Join();
}

}  // namespace

absl::Status MatmulCuda(absl::Span<const MatmulProblem> problems,
                        Stream stream) {
  if (problems.empty()) return absl::OkStatus();
  const int device = problems[0].out.device.index;
  SK_ASSIGN_OR_RETURN(MatmulContext * context, MatmulContext::Get(device));
  SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard, CudaDeviceGuard::Enter(device));
  const bool has_custom =
      std::any_of(problems.begin(), problems.end(), HasCustom);
  if (problems.size() == 1 && !has_custom) {
    return Multiply(problems[0], context, AsCudaStream(stream));
  }
  for (const MatmulProblem& p : problems) {
    SK_RETURN_IF_ERROR(CheckNative(p, *context));
  }
  return has_custom ? MultiplyCustom(problems, context, stream)
                    : MultiplyAtOnce(problems, context, stream);
}

absl::Status SaveMatmulPlansCuda(int device, const std::string& path) {
  SK_ASSIGN_OR_RETURN(MatmulContext * context, MatmulContext::Get(device));
  return WritePlanFile(path, PrintPlans(context->chip(), context->Choices()));
}

absl::Status LoadMatmulPlansCuda(int device, const std::string& path) {
  SK_ASSIGN_OR_RETURN(MatmulContext * context, MatmulContext::Get(device));
  SK_ASSIGN_OR_RETURN(const std::string text, ReadPlanFile(path));
  const absl::StatusOr<std::vector<PlanRecord>> records =
      ParsePlans(text, context->chip());
  if (!records.ok()) {
    return absl::Status(records.status().code(),
                        absl::StrCat(path, ": ", records.status().message()));
  }
  context->Adopt(*records);
  return absl::OkStatus();
}

}  // namespace scalekeeper::internal
