// The fast block casts, for the shapes that they take. Internal to this
// package.
#ifndef SCALEKEEPER_QUANTIZER_BLOCK_CAST_CUDA_H_
#define SCALEKEEPER_QUANTIZER_BLOCK_CAST_CUDA_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/tensor_view.h"
#include "quantizer/block_kernels.h"

namespace scalekeeper::kernels::cuda {

// Whether CastBlockTiles takes a cast: rows of 16-byte multiples, outputs
// aligned to 16 bytes, no counters and none of NVFP4's options.
bool CanCastBlockTiles(const ConstTensorView& x, const BlockCastSpec& spec,
                       const BlockCastOutput& out);

// BlockCast in one pass over x, with x's device current. Not for zero elements.
absl::Status CastBlockTiles(const ConstTensorView& x, const BlockCastSpec& spec,
                            const BlockCastOutput& out, const RunIf& run,
                            Stream stream);

// Whether CastSixteenTiles takes a cast: 1 x 16 blocks of NVFP4, else as
// CanCastBlockTiles, but with stochastic rounding and a transformed column-wise
// use. BlockCast in one pass over x.
bool CanCastSixteenTiles(const ConstTensorView& x, const BlockCastSpec& spec,
                         const BlockCastOutput& out);
absl::Status CastSixteenTiles(const ConstTensorView& x,
                              const BlockCastSpec& spec,
                              const BlockCastOutput& out, const RunIf& run,
                              Stream stream);

// TensorAmaxes with the transform in one pass, but raises the words; for x that
// CanRaiseLines takes, rows a multiple of 16, column_wise not null.
absl::Status RaiseHadamardAmaxes(const ConstTensorView& x,
                                 const TensorAmaxWords& words, const RunIf& run,
                                 Stream stream);

// Whether CastRows takes it, and RowwiseCast in one pass over x.
bool CanCastRows(const ConstTensorView& x, const BlockCastSpec& spec,
                 const BlockCastOutput& out);
absl::Status CastRows(const ConstTensorView& x, const BlockCastSpec& spec,
                      const BlockCastOutput& out, uint32_t* row_amax,
                      const RunIf& run, Stream stream);

// Whether RaiseLines takes x; raises row_amax[r] and col_amax[c] (null: left
// out) to the amaxes of rows and columns.
bool CanRaiseLines(const ConstTensorView& x);
absl::Status RaiseLines(const ConstTensorView& x, uint32_t* row_amax,
                        uint32_t* col_amax, const RunIf& run, Stream stream);

}  // namespace scalekeeper::kernels::cuda

#endif  // SCALEKEEPER_QUANTIZER_BLOCK_CAST_CUDA_H_
