#include "tools/inspect.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "amax/natural_order.h"
#include "base/text.h"
#include "numerics/amax.h"
#include "numerics/bits.h"
#include "numerics/format.h"
#include "numerics/scale.h"

namespace scalekeeper {
namespace {

constexpr float kSpike = 16;

uint32_t LargestOf(const std::vector<uint32_t>& window, size_t count) {
  uint32_t largest = 0;
  for (size_t i = 0; i < count; ++i) largest = MaxBits(largest, window[i]);
  return largest;
}

// How far the scale is from what the window gives, as a factor >= 1; nothing
// where that cannot be told.
std::optional<float> Distance(const DelayedImage& delayed) {
  if (!delayed.options.has_value() || delayed.window.empty()) {
    return std::nullopt;
  }
  const uint32_t amax = delayed.options->algo == AmaxComputeAlgo::kMostRecent
                            ? delayed.window.back()
                            : LargestOf(delayed.window, delayed.window.size());
  if (amax == 0 || IsNonFiniteAmax(amax)) return std::nullopt;
  const float wanted =
      ScaleFromAmax(FloatFromBits(amax), FormatMax(delayed.options->format),
                    delayed.options->margin);
  const float scale = FloatFromBits(delayed.scale_bits);
  return std::max(scale / wanted, wanted / scale);
}

std::string Windows(const DelayedImage& a, const DelayedImage& b) {
  const auto text = [](const DelayedImage& d) {
    const uint32_t largest = LargestOf(d.window, d.window.size());
    return absl::StrCat(d.window.size(), " amaxes, maximum ",
                        ShortestNumber(FloatFromBits(largest)));
  };
  return absl::StrCat("window: ", text(a), " -> ", text(b));
}

class Differences {
 public:
  explicit Differences(std::string slot) : slot_(std::move(slot)) {}

  void Add(std::string what) { found_.push_back({slot_, std::move(what)}); }
  template <typename T>
  void Compare(absl::string_view field, const T& a, const T& b) {
    if (a != b) Add(absl::StrCat(field, ": ", a, " -> ", b));
  }
  void CompareFloats(absl::string_view field, uint32_t a, uint32_t b) {
    if (a == b) return;
    Add(absl::StrCat(field, ": ", ShortestNumber(FloatFromBits(a)), " -> ",
                     ShortestNumber(FloatFromBits(b))));
  }
  std::vector<SlotDifference>& found() { return found_; }

 private:
  const std::string slot_;
  std::vector<SlotDifference> found_;
};

void CompareDelayed(const DelayedImage& a, const DelayedImage& b,
                    Differences* differences) {
  const auto options = [](const DelayedImage& d) {
    return d.options.has_value() ? Describe(*d.options)
                                 : std::string("(not known)");
  };
  differences->CompareFloats("scale", a.scale_bits, b.scale_bits);
  if (a.window != b.window) differences->Add(Windows(a, b));
  differences->Compare("options", options(a), options(b));
  differences->Compare("in use", a.in_use, b.in_use);
  differences->Compare("measured", a.measure, b.measure);
}

void CompareSlots(const SlotImage& a, const SlotImage& b,
                  Differences* differences) {
  differences->Compare("role", Name(a.role), Name(b.role));
  differences->Compare("identity", Quoted(a.identity), Quoted(b.identity));
  differences->Compare("group", Quoted(a.group), Quoted(b.group));
  differences->CompareFloats("observed amax", a.amax_bits, b.amax_bits);
  differences->CompareFloats("held amax", a.held_bits, b.held_bits);
  differences->Compare("non-finite steps", a.non_finite_steps,
                       b.non_finite_steps);
  if (a.delayed.has_value() && b.delayed.has_value()) {
    CompareDelayed(*a.delayed, *b.delayed, differences);
  } else {
    differences->Compare("has a scale", a.delayed.has_value(),
                         b.delayed.has_value());
  }
}

void CompareHeads(const StateImage& a, const StateImage& b,
                  Differences* differences) {
  differences->Compare("step", a.step, b.step);
  differences->Compare("updates", a.updates, b.updates);
  differences->Compare("skipped", a.skipped, b.skipped);
  differences->Compare("numerics_version", a.numerics_version,
                       b.numerics_version);
  differences->Compare("recipe fingerprint", Quoted(a.recipe_fingerprint),
                       Quoted(b.recipe_fingerprint));
}

struct NaturalOrder {
  bool operator()(absl::string_view a, absl::string_view b) const {
    return NaturalLess(a, b);
  }
};

}  // namespace

std::vector<std::string> Suspicions(const SlotImage& slot, int64_t updates) {
  std::vector<std::string> found;
  if (slot.non_finite_steps != 0) {
    found.push_back(
        absl::StrCat("non-finite amax in ", slot.non_finite_steps,
                     slot.non_finite_steps == 1 ? " step" : " steps"));
  }
  if (!slot.delayed.has_value()) return found;
  const DelayedImage& delayed = *slot.delayed;
  const std::vector<uint32_t>& window = delayed.window;
  if (std::any_of(window.begin(), window.end(), IsNonFiniteAmax)) {
    found.push_back("overflow: inf or NaN in the window");
  }
  const float scale = FloatFromBits(delayed.scale_bits);
  if (scale == kFloatMax || scale == kFloatMinNormal) {
    found.push_back(absl::StrCat("extreme scale ", ShortestNumber(scale)));
  }
  if (delayed.in_use && window.empty() && updates > 0) {
    found.push_back("unused: nothing was observed");
  }
  const std::optional<float> distance = Distance(delayed);
  if (delayed.in_use && distance.has_value() && *distance > 2) {
    found.push_back(absl::StrCat("stale: the scale is off its window by ",
                                 ShortestNumber(*distance)));
  }
  if (window.size() >= 2) {
    const uint32_t before = LargestOf(window, window.size() - 1);
    const float newest = FloatFromBits(window.back());
    if (!IsNonFiniteAmax(before) && !IsNonFiniteAmax(window.back()) &&
        newest > kSpike * FloatFromBits(before)) {
      found.push_back(absl::StrCat("spike: ", ShortestNumber(newest),
                                   " after at most ",
                                   ShortestNumber(FloatFromBits(before))));
    }
  }
  return found;
}

std::vector<SlotDifference> DiffStates(const StateImage& a,
                                       const StateImage& b) {
  std::set<absl::string_view, NaturalOrder> names;
  for (const SlotImage& slot : a.slots) names.insert(slot.name);
  for (const SlotImage& slot : b.slots) names.insert(slot.name);
  std::vector<SlotDifference> all;
  for (absl::string_view name : names) {
    Differences differences{std::string(name)};
    const SlotImage* const in_a = a.Find(name);
    const SlotImage* const in_b = b.Find(name);
    if (in_a == nullptr || in_b == nullptr) {
      differences.Add(in_a == nullptr ? "not in A" : "not in B");
    } else {
      CompareSlots(*in_a, *in_b, &differences);
    }
    all.insert(all.end(), differences.found().begin(),
               differences.found().end());
  }
  Differences head("");
  CompareHeads(a, b, &head);
  all.insert(all.end(), head.found().begin(), head.found().end());
  return all;
}

}  // namespace scalekeeper
