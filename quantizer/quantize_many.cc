#include "quantizer/quantize_many.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace scalekeeper {

// Lists are walked once per group instead of being sorted: nothing is allocated
// in a step.
absl::Status QuantizeMany(absl::Span<const QuantizeItem> items, Stream stream) {
  for (const QuantizeItem& item : items) {
    if (item.quantizer == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "items[", &item - items.data(), "].quantizer: got a null pointer"));
    }
    SK_RETURN_IF_ERROR(item.quantizer->CheckInto(item.x, item.out));
  }
  const auto call_of = [stream](const QuantizeItem& item) {
    Quantizer::Call call;
    call.x = item.x;
    call.noop_flag = item.noop_flag;
    call.observe = item.quantizer->observes(item.x);
    call.counters = item.quantizer->counters_;
    call.stream = stream;
    return call;
  };
  const auto shared_of = [](const QuantizeItem& item) {
    return item.quantizer->SharedAmaxesOf(*item.out);
  };

  // Names order the messages, so a name is one group's.
  for (const QuantizeItem& item : items) {
    const AmaxGroup* const group = shared_of(item).group;
    for (const QuantizeItem* other = items.data(); other != &item; ++other) {
      const AmaxGroup* const its = shared_of(*other).group;
      if (group == nullptr || its == nullptr || group == its ||
          group->name() != its->name()) {
        continue;
      }
      return absl::InvalidArgumentError(absl::StrCat(
          "items: ", other->quantizer->name(), " and ", item.quantizer->name(),
          " have an amax_group \"", group->name(),
          "\" of two RecipeStates, want one state's quantizers"));
    }
  }
  for (const QuantizeItem& item : items) {
    if (shared_of(item).group != nullptr) continue;
    SK_RETURN_IF_ERROR(item.quantizer->QuantizeTensor(call_of(item), item.out));
  }
  AmaxGroup* done = nullptr;
  while (true) {
    // The next group in the order of the names, and the length of its message.
    AmaxGroup* group = nullptr;
    size_t count = 0;
    for (const QuantizeItem& item : items) {
      const Quantizer::SharedAmaxes shared = shared_of(item);
      if (shared.group == nullptr ||
          (done != nullptr && shared.group->name() <= done->name())) {
        continue;
      }
      if (group == nullptr || shared.group->name() < group->name()) {
        group = shared.group;
        count = 0;
      }
      if (shared.group == group) count += shared.count;
    }
    if (group == nullptr) return absl::OkStatus();
    SK_ASSIGN_OR_RETURN(uint32_t* const words, group->Words(count, stream));
    size_t at = 0;
    for (const QuantizeItem& item : items) {
      const Quantizer::SharedAmaxes shared = shared_of(item);
      if (shared.group != group) continue;
      SK_RETURN_IF_ERROR(item.quantizer->MeasureSharedImpl(
          call_of(item), item.out, words + at));
      at += shared.count;
    }
    SK_RETURN_IF_ERROR(group->ReduceMax(count, stream));
    at = 0;
    for (const QuantizeItem& item : items) {
      const Quantizer::SharedAmaxes shared = shared_of(item);
      if (shared.group != group) continue;
      Quantizer::Call call = call_of(item);
      call.shared_amaxes = words + at;
      SK_RETURN_IF_ERROR(item.quantizer->QuantizeTensor(call, item.out));
      at += shared.count;
    }
    done = group;
  }
}

}  // namespace scalekeeper
