#include "amax/export_scales.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "numerics/bits.h"
#include "numerics/scale.h"

namespace scalekeeper {
namespace {

// The amax that the scale was made from; 0 when there is none.
uint32_t AmaxOfWindow(const Policy& policy,
                      const std::vector<uint32_t>& window) {
  if (window.empty()) return 0;
  return policy.delayed.amax_compute_algo == AmaxComputeAlgo::kMostRecent
             ? window.back()
             : *std::max_element(window.begin(), window.end());
}

absl::StatusOr<std::string> SlotJson(const RecipeState& state, SlotId slot,
                                     Stream stream) {
  const Policy& policy = state.policy(slot);
  SK_ASSIGN_OR_RETURN(const float scale, state.Scale(slot, stream));
  SK_ASSIGN_OR_RETURN(const std::vector<uint32_t> window,
                      state.Window(slot, stream));
  const uint32_t amax = AmaxOfWindow(policy, window);
  return absl::StrCat(
      "{\"format\": ", JsonString(Name(policy.format)),
      ", \"scale\": ", JsonNumber(scale),
      ", \"scale_inv\": ", JsonNumber(ScaleInverse(scale)), ", \"amax\": ",
      amax == 0 ? std::string("null") : JsonNumber(FloatFromBits(amax)),
      ", \"calibrated\": ", amax == 0 ? "false" : "true", "}");
}

}  // namespace

absl::StatusOr<std::string> ExportScales(const RecipeState& state,
                                         Stream stream) {
  if (!state.frozen()) {
    return absl::FailedPreconditionError(
        "ExportScales before Freeze: call Freeze first");
  }
  // Modules in the order in which they were added, with their slots.
  std::vector<std::pair<std::string, std::vector<std::string>>> modules;
  std::map<std::string, size_t> index;
  for (int32_t i = 0; i < static_cast<int32_t>(state.slot_count()); ++i) {
    const SlotId slot = {i};
    if (state.policy(slot).scaling != Scaling::kDelayed) continue;
    SK_ASSIGN_OR_RETURN(const std::string json, SlotJson(state, slot, stream));
    const std::string& name = state.name(slot);
    const size_t end = name.rfind('/');
    const std::string module = name.substr(0, end);
    const auto [it, inserted] = index.try_emplace(module, modules.size());
    if (inserted) modules.push_back({module, {}});
    modules[it->second].second.push_back(
        absl::StrCat("      ", JsonString(name.substr(end + 1)), ": ", json));
  }
  std::vector<std::string> texts;
  for (const auto& [module, slots] : modules) {
    texts.push_back(absl::StrCat("    ", JsonString(module), ": {\n",
                                 absl::StrJoin(slots, ",\n"), "\n    }"));
  }
  const Recipe& recipe = state.recipe();
  return absl::StrCat(
      "{\n  \"format\": \"scalekeeper.static_scales\",\n  \"version\": 1,\n",
      "  \"recipe\": {\n    \"name\": ", JsonString(recipe.name()),
      ",\n    \"fingerprint\": ", JsonString(recipe.fingerprint()),
      ",\n    \"text\": ", JsonString(recipe.ToString()),
      "\n  },\n  \"step\": ", state.step(), ",\n  \"modules\": {\n",
      absl::StrJoin(texts, ",\n"), texts.empty() ? "" : "\n", "  }\n}\n");
}

}  // namespace scalekeeper
