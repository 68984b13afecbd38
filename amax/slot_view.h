// A slot's device words, as a plain struct for anybody's kernels.
//
// Addresses are fixed from RecipeState::Freeze until the state is destroyed.
// Observing is a max on bits (numerics/amax.h): any number of threads and
// streams at once, in any order. Masking the sign bit is also done by the
// update, so a foreign -0.0 does no harm. A writer that *sets* a word instead
// of accumulating (cuBLASLt's AMAX_D) must write a scratch word and fold it in.
//
// `scale` and `scale_inv` are read by quantizing kernels and change only in
// RecipeState::EndStep, which the caller orders after them.
//
// Example (host):
//   Observe(state.View(slot), AmaxBits(-3.0f));   // amax is now at least 3
#ifndef SCALEKEEPER_AMAX_SLOT_VIEW_H_
#define SCALEKEEPER_AMAX_SLOT_VIEW_H_

#include <cstdint>

namespace scalekeeper {

struct SlotView {
  uint32_t* amax = nullptr;          // bits of this step's amax so far
  const float* scale = nullptr;      // multiplies when quantizing
  const float* scale_inv = nullptr;  // = 1 / *scale
  // Non-zero until an update has made the scale from an amax, under first_step:
  // MEASURE. While it is set, quantize with ScaleFromAmax of the tensor's own
  // amax (if that is 0 or non-finite: with *scale).
  const uint32_t* measure = nullptr;
};

// Raises the slot's amax to at least `amax_bits`. Host memory, any thread.
inline void Observe(const SlotView& slot, uint32_t amax_bits) {
  uint32_t seen = __atomic_load_n(slot.amax, __ATOMIC_RELAXED);
  while (seen < amax_bits &&
         !__atomic_compare_exchange_n(slot.amax, &seen, amax_bits,
                                      /*weak=*/true, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED)) {
  }
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_SLOT_VIEW_H_
