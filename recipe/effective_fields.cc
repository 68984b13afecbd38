#include "recipe/effective_fields.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/text.h"
#include "numerics/scale.h"
#include "recipe/policy_options.h"

namespace scalekeeper {
namespace {

std::string TextFormatString(absl::string_view text) {
  return absl::StrCat("\"", absl::CHexEscape(text), "\"");
}

std::string Text(bool value) { return value ? "true" : "false"; }

class Lister {
 public:
  void Field(absl::string_view path, std::string value, bool is_default) {
    fields_.push_back({std::string(path), std::move(value), is_default});
  }

  // Presence itself is a statement: it is never a default.
  void Policies(absl::string_view prefix, const Items& items) {
    for (Role role : kRoles) {
      const auto& policy = items.policies[static_cast<size_t>(role)];
      if (policy) {
        PolicyFields(absl::StrCat(prefix, Name(role), "."), *policy, role);
      }
    }
  }

  void Gemms(absl::string_view prefix, const Items& items, bool in_recipe) {
    for (Gemm gemm : kGemms) {
      const auto& policy = items.gemms[static_cast<size_t>(gemm)];
      if (!policy) continue;
      const std::string path = absl::StrCat(prefix, "matmul.", Name(gemm));
      if (!in_recipe) Field(path, "set", false);
      const GemmPolicy d = DefaultGemmPolicy(gemm);
      if (!policy->high_precision) {
        Field(path + ".fast_accum", Text(policy->fast_accum),
              policy->fast_accum == d.fast_accum);
      }
      Field(path + ".high_precision", Text(policy->high_precision),
            policy->high_precision == d.high_precision);
      Field(path + ".emulate", Text(policy->emulate),
            policy->emulate == d.emulate);
    }
  }

  void AmaxReduction(absl::string_view prefix, const Items& items,
                     bool in_recipe) {
    if (!items.amax_reduction) return;
    const AmaxReductionPolicy& policy = *items.amax_reduction;
    const std::string path = absl::StrCat(prefix, "amax_reduction");
    if (!in_recipe) Field(path, "set", false);
    Field(path + ".enabled", Text(policy.enabled), policy.enabled);
    if (policy.enabled) {
      Field(path + ".group", TextFormatString(policy.group),
            policy.group == AmaxReductionPolicy().group);
    }
  }

  void Update(const UpdatePolicy& policy) {
    const UpdatePolicy d;
    Field("update.interval", absl::StrCat(policy.interval),
          policy.interval == d.interval);
    Field("update.staleness", absl::StrCat(policy.staleness),
          policy.staleness == d.staleness);
  }

  void AllItems(absl::string_view prefix, const Items& items) {
    Policies(prefix, items);
    Gemms(prefix, items, /*in_recipe=*/false);
    AmaxReduction(prefix, items, /*in_recipe=*/false);
  }

  void Rules(const std::vector<NormalRule>& rules) {
    for (const NormalRule& rule : rules) {
      const Selector& s = rule.selector;
      if (s.by_layer) {
        const std::string path = rule.path + ".layers.";
        Field(path + "pattern", TextFormatString(s.pattern), false);
        Field(path + "first", absl::StrCat(s.first), s.first == 0);
        Field(path + "last", absl::StrCat(s.last), s.last == 0);
        Field(path + "last_percent", ShortestNumber(s.last_percent),
              s.last_percent == 0);
      } else {
        Field(rule.path + ".module", TextFormatString(s.pattern), false);
      }
      AllItems(rule.path + ".", rule.items);
      Field(rule.path + ".optional", Text(rule.optional), !rule.optional);
    }
  }

  std::vector<EffectiveField> Take() { return std::move(fields_); }

 private:
  void PolicyFields(const std::string& prefix, const Policy& policy,
                    Role role) {
    Field(prefix + "scaling", std::string(Name(policy.scaling)), false);
    if (policy.scaling != Scaling::kHighPrecision) {
      Field(prefix + "format", std::string(Name(policy.format)),
            policy.format == DefaultFormat(policy.scaling, role));
    }
    for (const PolicyOption& option : OptionsOf(policy)) {
      Field(absl::StrCat(prefix, Name(policy.scaling), ".", option.name),
            option.kind == PolicyOption::Kind::kText
                ? TextFormatString(option.value)
                : option.value,
            option.is_default);
    }
  }

  std::vector<EffectiveField> fields_;
};

}  // namespace

std::vector<EffectiveField> EffectiveFields(const NormalRecipe& recipe) {
  Lister lister;
  lister.Policies("defaults.", recipe.defaults);
  lister.Gemms("", recipe.defaults, /*in_recipe=*/true);
  lister.AmaxReduction("", recipe.defaults, /*in_recipe=*/true);
  lister.Update(recipe.update);
  lister.Rules(recipe.rules);
  for (const NormalPhase& phase : recipe.phases) {
    lister.Field(phase.path + ".from_step", absl::StrCat(phase.from_step),
                 false);
    lister.AllItems(phase.path + ".", phase.items);
    lister.Rules(phase.rules);
  }
  return lister.Take();
}

std::string FingerprintOf(const std::vector<EffectiveField>& fields) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a offset basis and prime
  const auto add = [&hash](absl::string_view bytes) {
    for (char c : bytes) {
      hash ^= static_cast<unsigned char>(c);
      hash *= 0x100000001b3u;
    }
  };
  add(absl::StrCat("numerics_version=", kNumericsVersion, "\n"));
  for (const EffectiveField& field : fields) {
    if (!field.is_default)
      add(absl::StrCat(field.path, "=", field.value, "\n"));
  }
  return absl::StrFormat("%016x", hash);
}

}  // namespace scalekeeper
