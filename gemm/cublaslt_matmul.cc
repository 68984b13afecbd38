// How a Matmul becomes one cublasLtMatmul.
//
// cuBLASLt is column-major and takes 8-bit operands only with K running fastest
// in both (TN). Read column-major, our row-major D is D^T = b^T a^T: its A is
// our b as N x K, its B is our a as M x K, with K contiguous in both; that is
// what `Operand` and `Placement` bring about, with a copy into staging memory
// where the caller's bytes lie otherwise:
//   codes without a copy in which K runs fastest   transposed
//   codes with K not a multiple of 16              padded with zeros
//   a pointer or leading dimension that is not a multiple of 16 bytes, or no
//   unit stride                                    copied
// Zeros add nothing to a sum, so none of this changes the result; and since the
// plan's key is then that of the TN product, the bits are the same too.
//
// Direct or finished. Where the chip takes type, bias, activation and layout of
// `out`, the product goes straight into it. Else (also when the heuristic has
// no answer for it) it goes into float32 staging memory, and a kernel adds bias
// and accumulator, activates, rounds once and stores.
#include "gemm/cublaslt_matmul.h"

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/cuda/device_guard_cuda.h"
#include "base/cuda/handles_cuda.h"
#include "base/cuda/status_cuda.h"
#include "base/device_memory.h"
#include "base/fp8_capability.h"
#include "base/status_macros.h"
#include "gemm/capture_mode_cuda.h"
#include "gemm/cublaslt_context.h"
#include "gemm/cublaslt_plan.h"
#include "gemm/cublaslt_types.h"
#include "gemm/matmul_kernels_cuda.h"
#include "gemm/plan_file.h"

namespace scalekeeper::internal {
namespace {

constexpr int64_t kAlignment = 16;  // bytes
// Multiples that 8-bit products want of K; of N for a high-precision D and for
// an 8-bit one; and what N is padded to, which suits every D.
constexpr int64_t kCodesDepth = 16;
constexpr int64_t kCodesCols = 8;
constexpr int64_t kCodesColsOfCodes = 16;
constexpr int64_t kCodesColsPadded = 16;

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

bool IsAligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % kAlignment == 0;
}

bool IsCodes(const MatmulInput& input) {
  return input.values.dtype == DType::kUint8;
}

// Hands out parts of the staging memory.
class StagingLayout {
 public:
  size_t Add(int64_t bytes) {
    const size_t offset = bytes_;
    bytes_ += static_cast<size_t>(
        RoundUp(bytes, static_cast<int64_t>(Allocator::kAlignment)));
    return offset;
  }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};

// An operand as a strided outer x K matrix: outer is M for a, N for b.
struct Operand {
  ConstTensorView values;
  cudaDataType_t type = CUDA_R_32F;
  bool is_codes = false;
  const float* scale_inv = nullptr;
};

Operand OperandOf(const MatmulInput& input, const ConstTensorView& values) {
  Operand operand;
  operand.values = values;
  operand.is_codes = IsCodes(input);
  operand.type =
      operand.is_codes ? CudaType(input.format) : CudaType(values.dtype);
  operand.scale_inv = input.scale_inv;
  return operand;
}

// Where an operand lies for the call.
struct Placement {
  bool is_staged = false;
  size_t offset = 0;          // in the staging memory
  bool depth_fastest = true;  // K is contiguous; else the other dimension
  int64_t ld = 0;
  int64_t outer = 0, depth = 0;  // padded
};

// True when a column of `length` elements, `stride` apart, `count` of them
// `ld` apart, is what cuBLASLt takes; sets *ld.
bool IsTaken(int64_t length, int64_t stride, int64_t count, int64_t distance,
             int64_t element_bytes, int64_t* ld) {
  *ld = count <= 1 ? RoundUp(length, kAlignment / element_bytes) : distance;
  return (stride == 1 || length <= 1) && *ld >= length &&
         *ld * element_bytes % kAlignment == 0;
}

Placement Place(const Operand& operand, int64_t outer, int64_t depth,
                StagingLayout* staging) {
  const ConstTensorView& v = operand.values;
  const int64_t element_bytes = BytesOf(operand.type);
  Placement place;
  place.outer = outer;
  place.depth = depth;
  if (outer == v.rows && depth == v.cols && IsAligned(v.data)) {
    place.depth_fastest = true;
    if (IsTaken(v.cols, v.col_stride, v.rows, v.row_stride, element_bytes,
                &place.ld)) {
      return place;
    }
    place.depth_fastest = false;
    if (!operand.is_codes && IsTaken(v.rows, v.row_stride, v.cols, v.col_stride,
                                     element_bytes, &place.ld)) {
      return place;
    }
  }
  place.is_staged = true;
  place.depth_fastest = true;
  place.ld = RoundUp(depth, kAlignment / element_bytes);
  place.offset = staging->Add(outer * place.ld * element_bytes);
  return place;
}

absl::StatusOr<const void*> Bring(const Operand& operand,
                                  const Placement& place, char* staging,
                                  cudaStream_t stream) {
  if (!place.is_staged) return operand.values.data;
  PackArguments pack;
  pack.source = operand.values.data;
  pack.destination = staging + place.offset;
  pack.element_bytes = BytesOf(operand.type);
  pack.rows = operand.values.rows;
  pack.cols = operand.values.cols;
  pack.row_stride = operand.values.row_stride;
  pack.col_stride = operand.values.col_stride;
  pack.padded_rows = place.outer;
  pack.padded_cols = place.ld;
  SK_RETURN_IF_ERROR(PackOnDevice(pack, stream));
  return pack.destination;
}

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
bool IsNativeOut(const Operand& a, DType out) {
  return a.is_codes || out == DType::kF32 || out == a.values.dtype;
}

// The type of bias that such a product's epilogue adds.
bool IsNativeBias(const MatmulProblem& p, const Operand& a) {
  if (!a.is_codes) return p.bias->dtype == p.out.dtype;
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
  FinishArguments finish;
  finish.sums = sums;
  finish.sums_row_stride = sums_row_stride;
  finish.out = p.out;
  if (p.codes) {
    finish.is_quantized = true;
    finish.quantized.codes = static_cast<uint8_t*>(p.out.data);
    finish.quantized.format = p.codes->format;
    finish.quantized.slot = p.codes->slot;
  }
  if (p.bias) {
    finish.has_bias = true;
    finish.bias = *p.bias;
  }
  finish.activation = p.activation;
  finish.accumulate = p.accumulate;
  SK_RETURN_IF_ERROR(FinishOnDevice(finish, stream));
  return p.codes ? FinishCodes(p, nullptr, stream) : absl::OkStatus();
}

// One call: the checked problem, where it runs, and what memory it has.
class Call {
 public:
  Call(const MatmulProblem& problem, const MatmulContext& context,
       StreamWorkspace* workspace, cudaStream_t stream)
      : p_(problem),
        a_(OperandOf(problem.a, problem.a.values)),
        b_(OperandOf(problem.b,
                     ConstTensorView(problem.b.values.Transposed()))),
        workspace_(workspace) {
    site_.handle = context.handle();
    site_.device = context.device();
    site_.workspace = workspace->data();
    site_.workspace_bytes = StreamWorkspace::kBytes;
    site_.stream = stream;
  }

  bool CanBeDirect() const;
  // False when cuBLASLt takes no such product; nothing is enqueued into `out`.
  absl::StatusOr<bool> RunDirect(MatmulContext* context);
  absl::StatusOr<bool> RunFinished(MatmulContext* context);

 private:
  // What the two kinds share: the product into `d` of type `d_type`.
  struct Product {
    cudaDataType_t d_type = CUDA_R_32F;
    int64_t cols = 0;  // N, padded
    int64_t ldd = 0;
  };
  MatmulPlanKey KeyOf(const Product& product, const Placement& a,
                      const Placement& b) const;
  absl::Status CheckMemory() const;
  int64_t Depth() const {
    return a_.is_codes ? RoundUp(a_.values.cols, kCodesDepth) : a_.values.cols;
  }
  absl::StatusOr<bool> Run(MatmulPlan* plan, const Placement& a,
                           const Placement& b, char* staging,
                           MatmulPointers pointers);

  const MatmulProblem& p_;
  const Operand a_;
  const Operand b_;
  StreamWorkspace* const workspace_;
  MatmulSite site_;
};

bool Call::CanBeDirect() const {
  const TensorView& out = p_.out;
  if (p_.bias && !IsNativeBias(p_, a_)) return false;
  if (p_.codes) {
    return a_.is_codes && IsAligned(out.data) &&
           out.cols % kCodesColsOfCodes == 0;
  }
  int64_t ld = 0;
  return IsNativeOut(a_, out.dtype) && IsAligned(out.data) &&
         IsTaken(out.cols, out.col_stride, out.rows, out.row_stride,
                 BytesOf(CudaType(out.dtype)), &ld) &&
         (!a_.is_codes || out.cols % kCodesCols == 0);
}

MatmulPlanKey Call::KeyOf(const Product& product, const Placement& a,
                          const Placement& b) const {
  MatmulPlanKey key;
  key.m = product.cols;
  key.n = p_.out.rows;
  key.k = a.depth;
  key.lda = b.ld;
  key.ldb = a.ld;
  key.ldd = product.ldd;
  key.op_a = b.depth_fastest ? CUBLAS_OP_T : CUBLAS_OP_N;
  key.op_b = a.depth_fastest ? CUBLAS_OP_N : CUBLAS_OP_T;
  key.a_type = b_.type;
  key.b_type = a_.type;
  key.d_type = product.d_type;
  key.c_type = product.d_type;
  key.compute =
      a_.type == CUDA_R_32F ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  key.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  if (a_.is_codes) {
    key.flags |= MatmulPlanKey::kScaled;
    if (p_.fast_accum) key.flags |= MatmulPlanKey::kFastAccum;
  }
  if (p_.deterministic) key.flags |= MatmulPlanKey::kDeterministic;
  return key;
}

// Views say which device they are on; whether that is true is asked once, when
// a plan is made, since asking costs as much as the rest of a call.
absl::Status Call::CheckMemory() const {
  RelaxedCaptureMode relaxed;
  const auto check = [this](absl::string_view what, const void* data) {
    return scalekeeper::CheckMemory(p_.out.device, data,
                                    absl::StrCat(Name(p_), ": ", what));
  };
  SK_RETURN_IF_ERROR(check("a", a_.values.data));
  SK_RETURN_IF_ERROR(check("b", b_.values.data));
  SK_RETURN_IF_ERROR(check("out", p_.out.data));
  return p_.bias ? check("bias", p_.bias->data) : absl::OkStatus();
}

absl::StatusOr<bool> Call::Run(MatmulPlan* plan, const Placement& a,
                               const Placement& b, char* staging,
                               MatmulPointers pointers) {
  SK_ASSIGN_OR_RETURN(pointers.a, Bring(b_, b, staging, site_.stream));
  SK_ASSIGN_OR_RETURN(pointers.b, Bring(a_, a, staging, site_.stream));
  pointers.a_scale = b_.scale_inv;
  pointers.b_scale = a_.scale_inv;
  return plan->Run(pointers, site_);
}

absl::StatusOr<bool> Call::RunDirect(MatmulContext* context) {
  StagingLayout layout;
  const Placement a = Place(a_, a_.values.rows, Depth(), &layout);
  const Placement b = Place(b_, b_.values.rows, Depth(), &layout);

  Product product;
  product.cols = p_.out.cols;
  product.d_type =
      p_.codes ? CudaType(p_.codes->format) : CudaType(p_.out.dtype);
  (void)IsTaken(p_.out.cols, p_.out.col_stride, p_.out.rows, p_.out.row_stride,
                BytesOf(product.d_type), &product.ldd);
  MatmulPlanKey key = KeyOf(product, a, b);
  key.epilogue = EpilogueOf(p_.bias.has_value(), p_.activation);
  if (p_.accumulate) key.flags |= MatmulPlanKey::kAccumulate;
  if (p_.codes) {
    key.flags |= MatmulPlanKey::kQuantizedOut;
    key.c_type = CUDA_R_16BF;  // there is no 8-bit C
  }
  Operand bias;
  Placement bias_place;
  if (p_.bias) {
    bias.values = *p_.bias;
    bias.type = CudaType(p_.bias->dtype);
    key.bias_type = bias.type;
    bias_place = Place(bias, 1, p_.out.cols, &layout);
  }

  bool is_new = false;
  SK_ASSIGN_OR_RETURN(MatmulPlan * plan, context->Plan(key, &is_new));
  if (is_new) SK_RETURN_IF_ERROR(CheckMemory());
  if (plan->refused()) return false;
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
  SK_ASSIGN_OR_RETURN(const bool taken, Run(plan, a, b, staging, pointers));
  if (!taken || !p_.codes) return taken;
  SK_RETURN_IF_ERROR(FinishCodes(p_, workspace_->amax_word(), site_.stream));
  return true;
}

absl::StatusOr<bool> Call::RunFinished(MatmulContext* context) {
  StagingLayout layout;
  Product product;
  product.cols =
      a_.is_codes ? RoundUp(p_.out.cols, kCodesColsPadded) : p_.out.cols;
  product.ldd = RoundUp(product.cols, kAlignment / BytesOf(product.d_type));
  const Placement a = Place(a_, a_.values.rows, Depth(), &layout);
  const Placement b = Place(b_, product.cols, Depth(), &layout);
  const size_t sums_offset =
      layout.Add(p_.out.rows * product.ldd * BytesOf(product.d_type));

  bool is_new = false;
  SK_ASSIGN_OR_RETURN(MatmulPlan * plan,
                      context->Plan(KeyOf(product, a, b), &is_new));
  if (is_new) SK_RETURN_IF_ERROR(CheckMemory());
  if (plan->refused()) return false;
  SK_ASSIGN_OR_RETURN(char* staging, workspace_->Staging(layout.bytes()));
  MatmulPointers pointers;
  pointers.d = staging + sums_offset;
  SK_ASSIGN_OR_RETURN(const bool taken, Run(plan, a, b, staging, pointers));
  if (!taken) return false;
  SK_RETURN_IF_ERROR(Finish(p_, static_cast<const float*>(pointers.d),
                            product.ldd, site_.stream));
  return true;
}

absl::string_view TypeName(const MatmulInput& input) {
  if (!IsCodes(input)) return Name(input.values.dtype);
  return input.format == Format::kE4M3 ? "E4M3" : "E5M2";
}

absl::Status CheckOperands(const MatmulProblem& p, int compute_capability) {
  const auto pair = [&p] {
    return absl::StrCat(Name(p), ": got ", TypeName(p.a), " x ", TypeName(p.b));
  };
  if (IsCodes(p.a) != IsCodes(p.b)) {
    return absl::UnimplementedError(absl::StrCat(
        pair(),
        ", on CUDA want both operands quantized, or both in high precision"));
  }
  if (!IsCodes(p.a)) {
    if (p.a.values.dtype == p.b.values.dtype) return absl::OkStatus();
    return absl::UnimplementedError(
        absl::StrCat(pair(), ", on CUDA want operands of one dtype"));
  }
  const absl::Status fp8 = CheckHasFp8(p.out.device, compute_capability);
  if (!fp8.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat(pair(), ": ", fp8.message()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status MatmulCuda(const MatmulProblem& p, Stream stream) {
  const int device = p.out.device.index;
  SK_ASSIGN_OR_RETURN(MatmulContext * context, MatmulContext::Get(device));
  SK_RETURN_IF_ERROR(CheckOperands(p, context->compute_capability()));
  SK_ASSIGN_OR_RETURN(CudaDeviceGuard guard, CudaDeviceGuard::Enter(device));
  const cudaStream_t cuda_stream = AsCudaStream(stream);
  if (p.out.empty()) {
    return p.codes ? FinishCodes(p, nullptr, cuda_stream) : absl::OkStatus();
  }
  if (p.a.values.cols == 0) {
    return Finish(p, nullptr, 0, cuda_stream);
  }
  SK_ASSIGN_OR_RETURN(StreamWorkspace * workspace,
                      context->Workspace(cuda_stream));
  std::lock_guard<std::mutex> lock(workspace->mutex());
  Call call(p, *context, workspace, cuda_stream);
  if (call.CanBeDirect()) {
    SK_ASSIGN_OR_RETURN(const bool taken, call.RunDirect(context));
    if (taken) return absl::OkStatus();
  }
  SK_ASSIGN_OR_RETURN(const bool taken, call.RunFinished(context));
  if (taken) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat(Name(p), ": cuBLASLt ", context->chip().cublaslt_version,
                   " multiplies no ", TypeName(p.a), " x ", TypeName(p.b),
                   " on ", context->chip().name));
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
