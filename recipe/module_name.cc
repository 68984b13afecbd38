#include "recipe/module_name.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace scalekeeper {
namespace {

constexpr absl::string_view kWrappers[] = {"_orig_mod", "_fsdp_wrapped_module",
                                           "_checkpoint_wrapped_module",
                                           "module"};

}  // namespace

std::string CanonicalModuleName(absl::string_view name) {
  std::vector<absl::string_view> kept;
  for (absl::string_view component : absl::StrSplit(name, '.')) {
    if (std::find(std::begin(kWrappers), std::end(kWrappers), component) ==
        std::end(kWrappers)) {
      kept.push_back(component);
    }
  }
  return kept.empty() ? std::string(name) : absl::StrJoin(kept, ".");
}

}  // namespace scalekeeper
