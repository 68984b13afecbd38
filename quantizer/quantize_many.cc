#include "quantizer/quantize_many.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "amax/amax_group.h"
#include "base/status_macros.h"

namespace scalekeeper {
namespace {

// An item, and what its ranks share.
struct Planned {
  const QuantizeItem* item;
  SharedAmaxes shared;
};

// Memory for the list of a call, kept by the thread: nothing is allocated in a
// step. A quantizer may call QuantizeMany itself: that call gets a list of its
// own.
class PlanList {
 public:
  PlanList() { list_.swap(Kept()); }
  ~PlanList() {
    list_.clear();
    if (list_.capacity() > Kept().capacity()) list_.swap(Kept());
  }
  PlanList(const PlanList&) = delete;
  PlanList& operator=(const PlanList&) = delete;

  std::vector<Planned>& operator*() { return list_; }

 private:
  static std::vector<Planned>& Kept() {
    static thread_local std::vector<Planned> kept;
    return kept;
  }
  std::vector<Planned> list_;
};

// Those of no group first, then group by group in the order of the names, each
// in the order of the items.
bool Before(const Planned& a, const Planned& b) {
  const AmaxGroup* const first = a.shared.group;
  const AmaxGroup* const second = b.shared.group;
  if (first != second) {
    if (first == nullptr || second == nullptr) return first == nullptr;
    if (const int order = first->name().compare(second->name()); order != 0) {
      return order < 0;
    }
  }
  return a.item < b.item;
}

// Names order the messages, so a name is one group's. `plan` is sorted.
absl::Status CheckGroups(const std::vector<Planned>& plan) {
  for (size_t i = 1; i < plan.size(); ++i) {
    const AmaxGroup* const group = plan[i].shared.group;
    const AmaxGroup* const before = plan[i - 1].shared.group;
    if (before == nullptr || group == before ||
        group->name() != before->name()) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "items: ", plan[i - 1].item->quantizer->name(), " and ",
        plan[i].item->quantizer->name(), " have an amax_group \"",
        group->name(), "\" of two RecipeStates, want one state's quantizers"));
  }
  return absl::OkStatus();
}

// A failed reduction's error, with what this rank has sent.
absl::Status WithItems(const absl::Status& status, const Planned* begin,
                       const Planned* end) {
  std::string sent;
  for (const Planned* p = begin; p != end; ++p) {
    absl::StrAppend(&sent, sent.empty() ? "" : ", ", p->shared.count, " for ",
                    p->item->quantizer->name(), " ", p->item->x.rows, "x",
                    p->item->x.cols);
  }
  return absl::Status(
      status.code(),
      absl::StrCat(status.message(), " (this rank sent amaxes: ", sent, ")"));
}

}  // namespace

absl::Status QuantizeMany(absl::Span<const QuantizeItem> items, Stream stream) {
  PlanList list;
  std::vector<Planned>& plan = *list;
  for (const QuantizeItem& item : items) {
    if (item.quantizer == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "items[", &item - items.data(), "].quantizer: got a null pointer"));
    }
    SK_RETURN_IF_ERROR(item.quantizer->CheckItem(item));
    plan.push_back({&item, item.quantizer->SharedAmaxesOf(*item.out)});
  }
  std::sort(plan.begin(), plan.end(), Before);
  SK_RETURN_IF_ERROR(CheckGroups(plan));

  const auto call_of = [stream](const QuantizeItem& item) {
    QuantizeCall call;
    call.x = item.x;
    call.noop_flag = item.noop_flag;
    call.observe = item.quantizer->observes(item.x);
    call.counters = item.quantizer->counters_;
    call.stream = stream;
    return call;
  };
  const Planned* const end = plan.data() + plan.size();
  const Planned* begin = plan.data();
  for (; begin != end && begin->shared.group == nullptr; ++begin) {
    const QuantizeItem& item = *begin->item;
    SK_RETURN_IF_ERROR(item.quantizer->QuantizeImpl(call_of(item), item.out));
  }
  while (begin != end) {
    AmaxGroup* const group = begin->shared.group;
    const Planned* next = begin;
    size_t count = 0;
    for (; next != end && next->shared.group == group; ++next) {
      count += next->shared.count;
    }
    SK_ASSIGN_OR_RETURN(uint32_t* const words, group->Words(count, stream));
    size_t at = 0;
    for (const Planned* p = begin; p != next; at += p->shared.count, ++p) {
      SK_RETURN_IF_ERROR(p->item->quantizer->MeasureSharedImpl(
          call_of(*p->item), p->item->out, words + at));
    }
    if (const absl::Status status = group->ReduceMax(count, stream);
        !status.ok()) {
      return WithItems(status, begin, next);
    }
    at = 0;
    for (const Planned* p = begin; p != next; at += p->shared.count, ++p) {
      QuantizeCall call = call_of(*p->item);
      call.shared_amaxes = words + at;
      SK_RETURN_IF_ERROR(p->item->quantizer->QuantizeImpl(call, p->item->out));
    }
    begin = next;
  }
  return absl::OkStatus();
}

}  // namespace scalekeeper
