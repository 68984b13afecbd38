// Quantizer: turns a high-precision tensor into codes under one slot's policy.
//
// One per module and role. Public calls are not virtual: they check their
// arguments and call one protected virtual. Threads: different Quantizers at
// once; one Quantizer from several threads at once is fine for Quantize (amax
// accumulates), setters need exclusion. Must not outlive its RecipeState, whose
// changes it follows (quantizer/slot_quantizer.h).
//
// Where the slot's policy names an amax_group (and the state binds it), the
// amax that makes the scale is that of all ranks of the group: Quantize and
// QuantizeInto are then collectives, which every rank makes in the same order,
// also one whose tensor has no elements, and which quantizer/quantize_many.h
// does for several tensors at once.
//
// Quantize also observes: the tensor's amax is accumulated into the slot,
// unless observation is off (set_observing(false), or an InferenceGuard on this
// thread). Zero elements work and observe nothing. Scales
// change in RecipeState::EndStep and nowhere else.
//
// Work is queued on `stream`; only Measure synchronizes. Errors:
// InvalidArgument naming the argument and its value for a null view, a wrong
// dtype, device or shape, or memory (x's, the noop_flag) that is not on the
// quantizer's device (asked when a pointer is not that of its last call);
// Unimplemented for what a subclass cannot do. A failed call leaves slot and
// tensor as they were.
//
// Example:
//   SK_ASSIGN_OR_RETURN(std::unique_ptr<Quantizer> q,
//                       MakeQuantizer(state.get(), slots.input));
//   SK_ASSIGN_OR_RETURN(QuantizedTensor x8, q->Quantize(x, stream));
//   SK_RETURN_IF_ERROR(q->Dequantize(x8, back, stream));
//   q->Quantize(TensorView(), stream);        // zero elements: fine
//   q->Dequantize(x8, back.Transposed(), stream);
//       // InvalidArgument: out: got shape 256x128, want 128x256
#ifndef SCALEKEEPER_QUANTIZER_QUANTIZER_H_
#define SCALEKEEPER_QUANTIZER_QUANTIZER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "amax/recipe_state.h"
#include "base/buffer.h"
#include "base/tensor_view.h"
#include "quantizer/dequantizer.h"
#include "quantizer/kernels.h"
#include "quantizer/known_memory.h"
#include "quantizer/quantize_call.h"
#include "quantizer/quantized_tensor.h"
#include "quantizer/statistics.h"

namespace scalekeeper {

struct CustomQuantizerArgs;  // quantizer/custom_quantizer.h
struct QuantizeItem;         // quantizer/quantize_many.h

class Quantizer : public Dequantizer {
 public:
  Quantizer(const Quantizer&) = delete;
  Quantizer& operator=(const Quantizer&) = delete;

  // Allocates and quantizes. `x` is R x C, any strides, float32 / bfloat16 /
  // float16.
  absl::StatusOr<QuantizedTensor> Quantize(ConstTensorView x, Stream stream);
  // Into a tensor made by MakeEmpty (or an earlier Quantize) of the same shape
  // under the same policy; writes every use that the tensor has. `noop_flag`
  // (device word, may be null): non-zero leaves codes, scale_inv and amax as
  // they are.
  absl::Status QuantizeInto(ConstTensorView x, QuantizedTensor* out,
                            const uint32_t* noop_flag, Stream stream);
  // Of any tensor, whoever made it.
  absl::Status Dequantize(const QuantizedTensor& q, TensorView out,
                          Stream stream) const;
  // Without the checks; for those who hold a tensor of custom scaling.
  absl::Status DequantizeTo(const QuantizedTensor& q, const TensorView& out,
                            Stream stream) const final;
  // Memory for a rows x cols tensor: codes uninitialized, scale_inv 1 (queued
  // on `stream`).
  absl::StatusOr<QuantizedTensor> MakeEmpty(int64_t rows, int64_t cols,
                                            Stream stream = Stream()) const;
  // Observes the amax of `x` without making codes.
  absl::Status Calibrate(ConstTensorView x, Stream stream);

  // The statistics of numerics.md 7 for `x` under the scale that Quantize would
  // use now (of an amax_group: from this rank's amax); synchronizes, observes
  // nothing.
  absl::StatusOr<Statistics> Measure(ConstTensorView x, Stream stream) const;

  // The slot's name, "layers.0.fc1/input".
  const std::string& name() const { return name_; }
  Device device() const { return device_; }
  Usages usages() const { return usages_; }
  // Of the tensors that are made from now on.
  void set_usages(Usages usages) { usages_ = usages; }
  void SetUsage(Usage usage, bool on);
  // As if an InferenceGuard lived always and on every thread.
  bool inference() const { return inference_; }
  void set_inference(bool inference) { inference_ = inference; }
  bool observing() const { return observing_; }
  void set_observing(bool observing) { observing_ = observing; }
  // Device words (may be null) to which every cast of Quantize and QuantizeInto
  // adds what it met: statistics without another pass over the tensor.
  // Borrowed.
  void set_counters(kernels::CastCounters* counters) { counters_ = counters; }

 protected:
  using Call = QuantizeCall;
  using EmptyCall = MakeEmptyCall;

  // Of a program's own quantizer (quantizer/custom_quantizer.h).
  explicit Quantizer(const CustomQuantizerArgs& args);
  // The allocator is borrowed; null means the host's.
  Quantizer(std::string name, Device device, Usages usages,
            Allocator* allocator);

  // Before anything else in a call; what it makes may wait for the first one.
  virtual absl::Status RefreshImpl() const { return absl::OkStatus(); }
  // Required: codes and scale_inv of every use of `out`, and, if call.observe,
  // the tensor's amax into the slot.
  virtual absl::Status QuantizeImpl(const Call& call, QuantizedTensor* out) = 0;
  // Refuses an `out` that QuantizeImpl cannot write: before any work of a call,
  // for several tensors before that of the first. Tensors of custom scaling are
  // known to be this quantizer's own.
  virtual absl::Status CheckOutImpl(const QuantizedTensor& out) const;
  // Optional; Unimplemented where a subclass has none. By default tensors are
  // of custom scaling, with row-wise codes of a byte each and one scale_inv.
  virtual absl::StatusOr<QuantizedTensor> MakeEmptyImpl(
      const EmptyCall& call) const;
  // Of a tensor of custom scaling that this quantizer has made.
  virtual absl::Status DequantizeImpl(const QuantizedTensor& q,
                                      const TensorView& out,
                                      Stream stream) const;
  virtual absl::Status CalibrateImpl(const Call& call);
  // Scalings with an amax_group; by default none. The words are 0 before, and
  // call.noop_flag leaves them so.
  virtual SharedAmaxes SharedAmaxesOf(const QuantizedTensor& out) const;
  virtual absl::Status MeasureSharedImpl(const Call& call, QuantizedTensor* out,
                                         uint32_t* words);
  virtual absl::StatusOr<Statistics> MeasureImpl(const ConstTensorView& x,
                                                 Stream stream) const;

  Allocator* allocator() const { return allocator_; }
  // AllocateQuantized with this quantizer's memory; errors name the slot.
  absl::StatusOr<QuantizedTensor> Allocate(const EmptyCall& call,
                                           const Policy& policy) const;
  // InvalidArgument unless `out` was made under `policy`.
  absl::Status CheckMadeUnder(const Policy& policy,
                              const QuantizedTensor& out) const;

 private:
  friend class SlotQuantizer;  // calls those of its phases
  friend absl::Status QuantizeMany(absl::Span<const QuantizeItem> items,
                                   Stream stream);

  // Who makes, and alone understands, tensors of custom scaling.
  virtual const Quantizer* maker() const { return this; }
  // MakeEmptyImpl of the layouts that serve the usages; whose the tensor is.
  absl::StatusOr<QuantizedTensor> MakeTensor(const EmptyCall& call) const;
  absl::Status CheckInput(const ConstTensorView& x) const;
  // All that QuantizeInto refuses.
  absl::Status CheckItem(const QuantizeItem& item) const;
  // Whose the tensor is, then CheckOutImpl.
  absl::Status CheckOut(const QuantizedTensor& out) const;
  bool observes(const ConstTensorView& x) const;
  absl::Status Unimplemented(absl::string_view call) const;

  std::string name_;
  Device device_;
  Usages usages_;
  Allocator* allocator_;
  // Its tensors are read by it alone.
  bool custom_ = false;
  bool observing_ = true;
  bool inference_ = false;
  kernels::CastCounters* counters_ = nullptr;
  KnownMemory known_x_, known_noop_flag_;
};

// The quantizer that the recipe gives a slot, the one switch over scalings; it
// follows the active phase. `state` and `allocator` (null: the device's
// default) are borrowed. FailedPrecondition before Freeze; InvalidArgument for
// a slot that is not state's; Unimplemented, naming the slot, for a scaling or
// format that this build has no quantizer for; for custom scaling the errors of
// CheckFactories and MakeCustomQuantizer.
absl::StatusOr<std::unique_ptr<Quantizer>> MakeQuantizer(
    RecipeState* state, SlotId slot, Usages usages = Usages(),
    Allocator* allocator = nullptr);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_QUANTIZER_QUANTIZER_H_
