// Quantizes several tensors; those that share an amax_group exchange their
// amaxes in one message.
//
// Per group, in the order of the groups' names: the amaxes of its tensors into
// one message, one AllReduceMax; then every tensor is cast. Quantize and
// QuantizeInto are this with one item. Every rank of a group brings the same
// quantizers in the same order; one that has no elements for a tensor brings
// an empty one (of rowwise scaling: one of as many rows as the others have, and
// no columns). Nothing is allocated after the first call, and nothing
// synchronizes unless a communicator does.
//
// Errors: those of QuantizeInto, for the first item that has one, before
// anything is queued; and the communicator's (FailedPrecondition on every rank
// where ranks bring tensors of different rows for rowwise scaling; over NCCL,
// which compares no lengths, DeadlineExceeded), with what this rank has sent:
// the tensors of that group and of those after it are then as they were.
// A rank that fails before its message leaves the others waiting, at most until
// their deadline.
//
// Example: the two halves of a sharded layer.
//   const QuantizeItem items[] = {{q.get(), q_half, &q8}, {k.get(), k_half,
//                                 &k8}};
//   SK_RETURN_IF_ERROR(QuantizeMany(items, stream));
#ifndef SCALEKEEPER_QUANTIZER_QUANTIZE_MANY_H_
#define SCALEKEEPER_QUANTIZER_QUANTIZE_MANY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/device.h"
#include "base/tensor_view.h"
#include "quantizer/quantizer.h"

namespace scalekeeper {

// The arguments of one QuantizeInto.
struct QuantizeItem {
  Quantizer* quantizer = nullptr;
  ConstTensorView x;
  QuantizedTensor* out = nullptr;
  const uint32_t* noop_flag = nullptr;
};

absl::Status QuantizeMany(absl::Span<const QuantizeItem> items, Stream stream);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_QUANTIZER_QUANTIZE_MANY_H_
