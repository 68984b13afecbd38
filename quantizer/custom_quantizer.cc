#include "quantizer/custom_quantizer.h"

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace scalekeeper {
namespace {

class Registry {
 public:
  static Registry& Get() {
    static Registry* const registry = new Registry;
    return *registry;
  }

  absl::Status Add(absl::string_view name, const QuantizerFactory& factory) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!factories_.try_emplace(std::string(name), factory).second) {
      return absl::AlreadyExistsError(
          absl::StrCat("RegisterQuantizer: a factory \"", name,
                       "\" was registered before, want each name once"));
    }
    return absl::OkStatus();
  }

  // Empty when there is none.
  QuantizerFactory Find(absl::string_view name) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = factories_.find(name);
    return it == factories_.end() ? QuantizerFactory() : it->second;
  }

  std::vector<std::string> Names() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<std::string> names;
    for (const auto& [name, factory] : factories_) names.push_back(name);
    return names;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, QuantizerFactory, std::less<>> factories_;
};

// The only call into code that may throw.
absl::StatusOr<std::unique_ptr<Quantizer>> Call(
    const QuantizerFactory& factory, const CustomQuantizerArgs& args) {
  const std::string where = absl::StrCat(args.name, ": custom.factory \"",
                                         args.policy.custom.factory, "\"");
  try {
    absl::StatusOr<std::unique_ptr<Quantizer>> made = factory(args);
    if (!made.ok()) {
      return absl::Status(made.status().code(),
                          absl::StrCat(where, ": ", made.status().message()));
    }
    if (*made == nullptr) {
      return absl::InternalError(
          absl::StrCat(where, " returned null, want a quantizer or an error"));
    }
    return made;
  } catch (const std::exception& e) {
    return absl::InternalError(
        absl::StrCat(where, " threw: ", e.what(), "; want an error returned"));
  } catch (...) {
    return absl::InternalError(
        absl::StrCat(where, " threw something; want an error returned"));
  }
}

// Value `key` of type T; `otherwise` where there is none.
template <typename T>
absl::StatusOr<T> Get(const CustomQuantizerArgs& args, absl::string_view key,
                      absl::string_view type, std::optional<T> otherwise) {
  const std::string where =
      absl::StrCat(args.name, ": custom.parameters.", key, ": ");
  const auto it = args.parameters.find(std::string(key));
  if (it == args.parameters.end()) {
    if (otherwise) return *std::move(otherwise);
    return absl::InvalidArgumentError(
        absl::StrCat(where, "missing, want a ", type));
  }
  if (const T* value = std::get_if<T>(&it->second.value)) return *value;
  Parameters alone;
  alone.insert(*it);
  return absl::InvalidArgumentError(
      absl::StrCat(where, "got ", CanonicalJson(alone), ", want a ", type));
}

// "; registered are "a", "b"".
std::string RegisteredAre(const std::vector<std::string>& names) {
  return absl::StrCat(
      "; registered are ",
      names.empty() ? std::string("none")
                    : absl::StrCat("\"", absl::StrJoin(names, "\", \""), "\""));
}

// Factory -> where a recipe names it: "defaults.all", "rule[0].grad".
using FactoryPlaces = std::map<std::string, std::vector<std::string>>;

void AddFactories(absl::string_view path, const RolePoliciesSpec& spec,
                  FactoryPlaces* places) {
  const auto add = [&](absl::string_view role,
                       const std::optional<PolicySpec>& policy) {
    if (!policy) return;
    const auto* custom = std::get_if<CustomSpec>(&policy->scaling);
    if (custom == nullptr || !custom->factory) return;
    (*places)[*custom->factory].push_back(absl::StrCat(path, ".", role));
  };
  add("input", spec.input);
  add("weight", spec.weight);
  add("grad", spec.grad);
  add("all", spec.all);
}

FactoryPlaces FactoriesOf(const RecipeSpec& spec) {
  FactoryPlaces places;
  const auto add_rules = [&](absl::string_view prefix,
                             const std::vector<RuleSpec>& rules) {
    for (size_t i = 0; i < rules.size(); ++i) {
      AddFactories(absl::StrCat(prefix, "rule[", i, "]"), rules[i], &places);
    }
  };
  if (spec.defaults) AddFactories("defaults", *spec.defaults, &places);
  add_rules("", spec.rules);
  for (size_t i = 0; i < spec.phases.size(); ++i) {
    const std::string path = absl::StrCat("phase[", i, "]");
    AddFactories(path, spec.phases[i], &places);
    add_rules(absl::StrCat(path, "."), spec.phases[i].rules);
  }
  return places;
}

}  // namespace

absl::Status CheckFactories(const Recipe& recipe) {
  const std::vector<std::string> names = RegisteredQuantizers();
  std::string missing;
  for (const auto& [factory, places] : FactoriesOf(recipe.spec())) {
    if (std::binary_search(names.begin(), names.end(), factory)) continue;
    absl::StrAppend(&missing, missing.empty() ? "" : "; ", "\"", factory,
                    "\" (", absl::StrJoin(places, ", "), ")",
                    DidYouMean(factory, names));
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(
      "custom.factory: not registered: ", missing, RegisteredAre(names)));
}

absl::StatusOr<double> CustomQuantizerArgs::Number(
    absl::string_view key, std::optional<double> otherwise) const {
  return Get<double>(*this, key, "number", otherwise);
}

absl::StatusOr<bool> CustomQuantizerArgs::Bool(
    absl::string_view key, std::optional<bool> otherwise) const {
  return Get<bool>(*this, key, "boolean", otherwise);
}

absl::StatusOr<std::string> CustomQuantizerArgs::Text(
    absl::string_view key, std::optional<std::string> otherwise) const {
  return Get<std::string>(*this, key, "text", std::move(otherwise));
}

absl::Status CustomQuantizerArgs::CheckKeys(
    std::initializer_list<absl::string_view> keys) const {
  for (const auto& [key, value] : parameters) {
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    const std::vector<std::string> known(keys.begin(), keys.end());
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": custom.parameters.", key, ": not a parameter of \"",
        policy.custom.factory, "\", want one of: ",
        known.empty() ? std::string("none") : absl::StrJoin(known, ", "),
        DidYouMean(key, known)));
  }
  return absl::OkStatus();
}

absl::Status RegisterQuantizer(absl::string_view name,
                               const QuantizerFactory& factory) {
  if (name.empty()) {
    return absl::InvalidArgumentError(
        "RegisterQuantizer: got an empty name, want the factory's name");
  }
  if (!factory) {
    return absl::InvalidArgumentError(
        absl::StrCat("RegisterQuantizer: got no function for \"", name, "\""));
  }
  return Registry::Get().Add(name, factory);
}

std::vector<std::string> RegisteredQuantizers() {
  return Registry::Get().Names();
}

absl::StatusOr<std::unique_ptr<Quantizer>> MakeCustomQuantizer(
    CustomQuantizerArgs args) {
  const std::string& wanted = args.policy.custom.factory;
  const QuantizerFactory factory = Registry::Get().Find(wanted);
  if (!factory) {
    const std::vector<std::string> names = RegisteredQuantizers();
    return absl::NotFoundError(
        absl::StrCat(args.name, ": custom.factory: not registered: \"", wanted,
                     "\"", DidYouMean(wanted, names), RegisteredAre(names)));
  }
  absl::StatusOr<Parameters> parameters =
      ParseParameters(args.policy.custom.parameters);
  if (!parameters.ok()) {
    return absl::Status(
        parameters.status().code(),
        absl::StrCat(args.name, ": ", parameters.status().message()));
  }
  args.parameters = *std::move(parameters);
  return Call(factory, args);
}

}  // namespace scalekeeper
