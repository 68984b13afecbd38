// Puts the FP8 tensors of several ranks one below the other, ready for the GEMM
// that contracts their rows.
//
// Under sequence parallelism every rank holds some rows of a layer's input, and
// wgrad = dy^T x contracts all of them. A tensor with the usage
// all_gather_column_wise has column-wise codes of its own rows (C x R);
// gathered they become those of all ranks (C x n R): one exchange of bytes, and
// one kernel that puts the ranks' pieces side by side. No row-wise copy is made
// and no pass transposes anything.
//
// Per-tensor scaling in E4M3 or E5M2, with one scale_inv on all ranks: delayed
// scales that are reduced have it, and current ones with an amax_group. Where
// the ranks' scale_inv differ, the host's call fails; on a GPU, where nobody
// waits for the bytes, the gathered scale_inv becomes NaN and so does every
// product with it.
//
// Threads: one call at a time on a communicator. Work is queued on `stream`.
//
// Example:
//   quantizer->SetUsage(Usage::kAllGatherColumnWise, true);
//   SK_ASSIGN_OR_RETURN(QuantizedTensor x8, quantizer->Quantize(x, stream));
//   SK_ASSIGN_OR_RETURN(QuantizedTensor all,
//                       MakeGathered(x8, ranks->size(), allocator, stream));
//   SK_RETURN_IF_ERROR(AllGatherColumnWise(x8, ranks, &all, stream));
//   // all: n R x C, column-wise
#ifndef SCALEKEEPER_QUANTIZER_ALL_GATHER_H_
#define SCALEKEEPER_QUANTIZER_ALL_GATHER_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "amax/communicator.h"
#include "base/buffer.h"
#include "base/device.h"
#include "quantizer/quantized_tensor.h"

namespace scalekeeper {

// FailedPrecondition naming the scaling unless a tensor of its kind can be
// gathered.
absl::Status CheckCanGather(const QuantizedTensor& tensor,
                            absl::string_view what);

// Memory for what `ranks` tensors like `local` become, scratch included; kept
// from step to step.
absl::StatusOr<QuantizedTensor> MakeGathered(const QuantizedTensor& local,
                                             int ranks, Allocator* allocator,
                                             Stream stream);

// Collective: every rank brings a tensor of the same shape, format and usage.
// `gathered` is from MakeGathered. InvalidArgument for one that does not fit,
// FailedPrecondition for a `local` without the usage, or (host) when the ranks'
// scale_inv differ: then `gathered` holds its old bytes.
absl::Status AllGatherColumnWise(const QuantizedTensor& local,
                                 Communicator* communicator,
                                 QuantizedTensor* gathered, Stream stream);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_QUANTIZER_ALL_GATHER_H_
