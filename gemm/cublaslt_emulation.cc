#include "gemm/cublaslt_emulation.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "gemm/cublaslt_call.h"
#include "gemm/operand_layout.h"
#include "gemm/scaled_kernels_cuda.h"

namespace scalekeeper::internal {
namespace {

// Bounds of a tile: 64 MiB of bfloat16 for each operand, 64 MiB of sums.
constexpr int64_t kTileOuter = 4096;
constexpr int64_t kTileDepth = 8192;
constexpr int64_t kBF16Alignment = 8;  // elements: 16 bytes
constexpr int64_t kSumsAlignment = 4;

// An operand, and where its tiles are put.
struct Tiled {
  MatmulInput input;  // outer x K
  uint16_t* tile = nullptr;
  int64_t first = -1, first_depth = -1;  // of the tile that is there now

  absl::Status Load(int64_t outer, int64_t rows, int64_t depth, int64_t cols,
                    cudaStream_t stream) {
    if (first == outer && first_depth == depth) return absl::OkStatus();
    DequantizeArguments arguments;
    arguments.input = input.Part(outer, depth, rows, cols);
    arguments.destination = tile;
    arguments.padded_rows = rows;
    arguments.padded_cols = RoundUp(cols, kBF16Alignment);
    first = outer;
    first_depth = depth;
    return DequantizeOnDevice(arguments, stream);
  }
};

MatmulPlanKey KeyOf(int64_t rows, int64_t cols, int64_t depth, bool accumulate,
                    bool deterministic) {
  MatmulPlanKey key;
  key.m = cols;
  key.n = rows;
  key.k = key.lda = key.ldb = RoundUp(depth, kBF16Alignment);
  key.ldd = RoundUp(cols, kSumsAlignment);
  key.op_a = CUBLAS_OP_T;
  key.op_b = CUBLAS_OP_N;
  key.a_type = key.b_type = CUDA_R_16BF;
  key.c_type = key.d_type = CUDA_R_32F;
  key.compute = CUBLAS_COMPUTE_32F;
  key.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  if (accumulate) key.flags |= MatmulPlanKey::kAccumulate;
  if (deterministic) key.flags |= MatmulPlanKey::kDeterministic;
  return key;
}

OuterScale From(OuterScale scale, int64_t first) {
  if (scale.data != nullptr) scale.data += first * scale.stride;
  return scale;
}

}  // namespace

absl::Status MultiplyEmulated(const MatmulProblem& p, MatmulContext* context,
                              const MatmulSite& site,
                              StreamWorkspace* workspace) {
  const int64_t rows = std::min(p.out.rows, kTileOuter);
  const int64_t cols = std::min(p.out.cols, kTileOuter);
  const int64_t depth = std::min(p.a.values.cols, kTileDepth);
  const int64_t padded_depth = RoundUp(depth, kBF16Alignment);
  StagingLayout layout;
  const size_t a_offset = layout.Add(rows * padded_depth * 2);
  const size_t b_offset = layout.Add(cols * padded_depth * 2);
  const size_t sums_offset =
      layout.Add(rows * RoundUp(cols, kSumsAlignment) * 4);
  SK_ASSIGN_OR_RETURN(char* staging, workspace->Staging(layout.bytes()));
  Tiled a;
  a.input = p.a;
  a.tile = reinterpret_cast<uint16_t*>(staging + a_offset);
  Tiled b;
  b.input = p.b.Transposed();
  b.tile = reinterpret_cast<uint16_t*>(staging + b_offset);
  float* sums = reinterpret_cast<float*>(staging + sums_offset);

  for (int64_t n = 0; n < p.out.cols; n += kTileOuter) {
    const int64_t tile_cols = std::min(kTileOuter, p.out.cols - n);
    for (int64_t m = 0; m < p.out.rows; m += kTileOuter) {
      const int64_t tile_rows = std::min(kTileOuter, p.out.rows - m);
      const int64_t ldd = RoundUp(tile_cols, kSumsAlignment);
      for (int64_t k = 0; k < p.a.values.cols; k += kTileDepth) {
        const int64_t tile_depth = std::min(kTileDepth, p.a.values.cols - k);
        const MatmulPlanKey key =
            KeyOf(tile_rows, tile_cols, tile_depth, k > 0, p.deterministic);
        SK_ASSIGN_OR_RETURN(MatmulPlan * plan, PlanFor(p, context, key));
        SK_RETURN_IF_ERROR(a.Load(m, tile_rows, k, tile_depth, site.stream));
        SK_RETURN_IF_ERROR(b.Load(n, tile_cols, k, tile_depth, site.stream));
        MatmulPointers pointers;
        pointers.a = b.tile;
        pointers.b = a.tile;
        pointers.d = sums;
        bool taken = false;
        if (plan != nullptr) {
          SK_ASSIGN_OR_RETURN(
              taken, plan->Run(pointers, MatmulExtents::Of(key), site));
        }
        if (!taken) {
          return absl::UnimplementedError(absl::StrCat(
              Name(p), ": cuBLASLt ", context->chip().cublaslt_version,
              " multiplies no bfloat16 on ", context->chip().name));
        }
      }
      FinishArguments finish = FinishingOf(p);
      finish.sums = sums;
      finish.sums_row_stride = ldd;
      finish.row_scale = From(OuterScaleOf(a.input), m);
      finish.col_scale = From(OuterScaleOf(b.input), n);
      finish.out.data = static_cast<char*>(p.out.data) +
                        (m * p.out.row_stride + n * p.out.col_stride) *
                            static_cast<int64_t>(SizeOf(p.out.dtype));
      finish.out.rows = tile_rows;
      finish.out.cols = tile_cols;
      if (finish.has_bias) {
        finish.bias.data = static_cast<const char*>(finish.bias.data) +
                           n * finish.bias.col_stride *
                               static_cast<int64_t>(SizeOf(finish.bias.dtype));
      }
      SK_RETURN_IF_ERROR(FinishOnDevice(finish, site.stream));
    }
  }
  return absl::OkStatus();
}

}  // namespace scalekeeper::internal
