// How 100,000 modules are resolved quickly: all patterns are matched at once
// (PatternSet); modules that match the same rules form a class, and only
// classes are resolved. Their number is that of the kinds of modules in a
// model, not that of its modules.
#include "recipe/resolve.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "recipe/nearest_module.h"
#include "recipe/pattern_set.h"

namespace scalekeeper {
namespace {

class Resolver {
 public:
  Resolver(const NormalRecipe& recipe, const SourceMap& source,
           const std::vector<int>& active,
           absl::Span<const std::string> modules, IdleRules idle_rules)
      : recipe_(recipe),
        source_(source),
        active_(active),
        modules_(modules),
        idle_rules_(idle_rules),
        faults_(source) {}

  absl::StatusOr<ResolvedModules> Run() {
    if (absl::Status status = CheckNames(); !status.ok()) return status;
    ListRules();
    MatchModules();
    if (faults_.empty()) ClassifyModules();
    if (!faults_.empty()) return faults_.ToStatus();
    if (idle_rules_ == IdleRules::kFault) CheckRulesHaveEffect();
    std::vector<std::vector<uint32_t>> index;
    for (size_t phase = 0; phase < active_.size(); ++phase) {
      const auto offset = static_cast<uint32_t>(distinct_.size());
      for (const Class& c : classes_) ResolveClass(active_[phase], c);
      std::vector<uint32_t>& row = index.emplace_back(class_of_);
      for (uint32_t& entry : row) entry += offset;
    }
    if (!faults_.empty()) return faults_.ToStatus();
    return ResolvedModules(std::move(distinct_), std::move(index),
                           std::move(warnings_));
  }

 private:
  struct RuleState {
    const NormalRule* rule = nullptr;
    size_t list = 0;  // 0: the recipe's; i + 1: those of phase i
    // By-layer rules choose numbers <= low and >= high.
    int64_t low = -1;
    int64_t high = std::numeric_limits<int64_t>::max();
    bool matches = false;
    bool gives = false;   // an item, in its own list
    std::string example;  // a module that it matches
  };
  struct Class {
    std::vector<uint32_t> rules;  // that match, ascending
    std::string example;
    size_t size = 0;
  };

  absl::Status CheckNames() {
    std::string text;
    absl::flat_hash_map<absl::string_view, size_t> seen;
    for (size_t i = 0; i < modules_.size(); ++i) {
      if (modules_[i].empty()) {
        absl::StrAppend(&text, text.empty() ? "" : "\n", "modules[", i,
                        "]: got an empty name, want a module name");
      }
      const auto [at, inserted] = seen.emplace(modules_[i], i);
      if (!inserted && !modules_[i].empty()) {
        absl::StrAppend(&text, text.empty() ? "" : "\n", "modules[", i,
                        "]: got ", Quoted(modules_[i]), ", which modules[",
                        at->second, "] is already called, want unique names");
      }
    }
    return text.empty() ? absl::OkStatus() : absl::InvalidArgumentError(text);
  }

  void ListRules() {
    const auto add = [&](const std::vector<NormalRule>& rules, size_t list) {
      for (const NormalRule& rule : rules) {
        RuleState state;
        state.rule = &rule;
        state.list = list;
        const auto [at, inserted] = pattern_ids_.emplace(
            rule.selector.pattern, static_cast<int>(patterns_.size()));
        if (inserted) {
          patterns_.push_back(rule.selector.pattern);
          rules_of_.emplace_back();
        }
        rules_of_[static_cast<size_t>(at->second)].push_back(
            static_cast<uint32_t>(rules_.size()));
        rules_.push_back(std::move(state));
      }
    };
    add(recipe_.rules, 0);
    for (size_t i = 0; i < recipe_.phases.size(); ++i) {
      add(recipe_.phases[i].rules, i + 1);
    }
  }

  bool HasLayerRule(size_t pattern) const {
    for (uint32_t rule : rules_of_[pattern]) {
      if (rules_[rule].rule->selector.by_layer) return true;
    }
    return false;
  }

  // Fills matched_ and the layer limits of by-layer rules.
  void MatchModules() {
    const PatternSet set(patterns_);
    std::vector<bool> by_layer(patterns_.size());
    for (size_t i = 0; i < patterns_.size(); ++i) {
      by_layer[i] = HasLayerRule(i);
    }
    std::vector<std::vector<int64_t>> numbers(patterns_.size());
    matched_.resize(modules_.size());
    layers_.resize(patterns_.size());
    for (size_t m = 0; m < modules_.size(); ++m) {
      set.Match(modules_[m], matched_[m]);
      for (int pattern : matched_[m]) {
        const auto p = static_cast<size_t>(pattern);
        if (!by_layer[p]) continue;
        int64_t number = 0;
        if (!set.CaptureNumber(pattern, modules_[m], number)) {
          for (uint32_t rule : rules_of_[p]) {
            if (rules_[rule].rule->selector.by_layer) {
              faults_.Add(
                  rules_[rule].rule->path + ".layers.pattern",
                  absl::StrCat("got no layer number from module ",
                               Quoted(modules_[m]), " with ",
                               Quoted(patterns_[p]),
                               ", want digits in its group, at most 2^63 - 1"));
            }
          }
          by_layer[p] = false;  // one fault per pattern is enough
          continue;
        }
        numbers[p].push_back(number);
        layers_[p].emplace(m, number);
      }
    }
    for (std::vector<int64_t>& list : numbers) {
      std::sort(list.begin(), list.end());
      list.erase(std::unique(list.begin(), list.end()), list.end());
    }
    for (RuleState& state : rules_) {
      const Selector& s = state.rule->selector;
      if (!s.by_layer) continue;
      const std::vector<int64_t>& list =
          numbers[static_cast<size_t>(pattern_ids_[s.pattern])];
      const auto count = static_cast<int64_t>(list.size());
      const auto share = static_cast<int64_t>(
          std::ceil(s.last_percent / 100 * static_cast<double>(count)));
      const int64_t first = std::min(s.first, count);
      const int64_t last = std::min(std::max(s.last, share), count);
      if (first > 0) state.low = list[static_cast<size_t>(first - 1)];
      if (last > 0) state.high = list[static_cast<size_t>(count - last)];
    }
  }

  bool Applies(const RuleState& state, size_t pattern, size_t module) const {
    if (!state.rule->selector.by_layer) return true;
    const int64_t number = layers_[pattern].at(module);
    return number <= state.low || number >= state.high;
  }

  void ClassifyModules() {
    absl::flat_hash_map<std::vector<uint32_t>, uint32_t> known;
    class_of_.resize(modules_.size());
    std::vector<uint32_t> key;
    for (size_t m = 0; m < modules_.size(); ++m) {
      key.clear();
      for (int pattern : matched_[m]) {
        const auto p = static_cast<size_t>(pattern);
        for (uint32_t rule : rules_of_[p]) {
          if (Applies(rules_[rule], p, m)) key.push_back(rule);
        }
      }
      std::sort(key.begin(), key.end());
      const auto [at, inserted] =
          known.emplace(key, static_cast<uint32_t>(classes_.size()));
      if (inserted) classes_.push_back({key, modules_[m], 0});
      class_of_[m] = at->second;
      ++classes_[at->second].size;
    }
  }

  void CheckRulesHaveEffect() {
    for (const Class& c : classes_) {
      uint32_t taken = 0;
      size_t list = 0;
      for (uint32_t index : c.rules) {
        RuleState& state = rules_[index];
        if (state.list != list) taken = 0;
        list = state.list;
        const uint32_t bits = ItemBits(state.rule->items);
        if ((bits & ~taken) != 0) state.gives = true;
        taken |= bits;
        if (!state.matches) state.example = c.example;
        state.matches = true;
      }
    }
    size_t comparisons = 200000;
    for (const RuleState& state : rules_) {
      const NormalRule& rule = *state.rule;
      if (!state.matches) {
        const std::string path =
            rule.path +
            (rule.selector.by_layer ? ".layers.pattern" : ".module");
        const std::string nearest =
            NearestModule(rule.selector.pattern, modules_, comparisons);
        const std::string message = absl::StrCat(
            "got ", Quoted(rule.selector.pattern),
            rule.selector.by_layer ? ", which with its layers chooses none of "
                                   : ", which matches none of ",
            modules_.size(), " modules",
            nearest.empty() ? ""
                            : absl::StrCat(", nearest is ", Quoted(nearest)));
        if (rule.optional) {
          warnings_.push_back(
              absl::StrCat(FaultPrefix(source_.file, source_.Find(path)),
                           "warning: ", path, ": ", message));
        } else {
          faults_.Add(
              path, absl::StrCat(message, ", want a match or optional: true"));
        }
      } else if (!state.gives) {
        faults_.Add(rule.path,
                    absl::StrCat("never applies: earlier rules set all its "
                                 "items for every module that it matches (as ",
                                 Quoted(state.example),
                                 "), want it before them or removed"));
      }
    }
  }

  // Who says what in a message, as shown to people.
  struct Names {
    const std::string* path;
    const std::string* policy;
    const std::string* gemm;
    const std::string* reduction;
  };

  // Gives the items that are still open.
  void Take(const Items& items, const Names& names, ResolvedModule& out) {
    for (size_t i = 0; i < 3; ++i) {
      if (items.policies[i] && out.policy_origins[i].empty()) {
        out.policies[i] = *items.policies[i];
        out.policy_origins[i] = *names.policy;
        givers_[i] = {names.path, names.policy, items.said_by_all[i]};
      }
      if (items.gemms[i] && out.gemm_origins[i].empty()) {
        out.gemms[i] = *items.gemms[i];
        out.gemm_origins[i] = *names.gemm;
      }
    }
    if (items.amax_reduction && out.amax_reduction_origin.empty()) {
      out.amax_reduction = *items.amax_reduction;
      out.amax_reduction_origin = *names.reduction;
    }
  }

  void TakeRules(size_t list, const Class& c, ResolvedModule& out) {
    for (uint32_t index : c.rules) {
      if (rules_[index].list != list) continue;
      const NormalRule& rule = *rules_[index].rule;
      Take(rule.items, {&rule.path, &rule.origin, &rule.origin, &rule.origin},
           out);
    }
  }

  // Appends to distinct_ what the class gets while phase `active` holds.
  void ResolveClass(int active, const Class& c) {
    ResolvedModule& out = distinct_.emplace_back();
    const NormalPhase* phase = nullptr;
    if (active >= 0) {
      phase = &recipe_.phases[static_cast<size_t>(active)];
      TakeRules(static_cast<size_t>(active) + 1, c, out);
      Take(phase->items,
           {&phase->path, &phase->path, &phase->path, &phase->path}, out);
    }
    TakeRules(0, c, out);
    Take(recipe_.set_by_recipe,
         {&kDefaults, &kDefaults, &kMatmul, &kAmaxReduction}, out);
    Take(recipe_.defaults, {&kDefaults, &kDefaults, &kBuiltIn, &kBuiltIn}, out);
    CheckOperands(phase, c, out);
  }

  void CheckOperands(const NormalPhase* phase, const Class& c,
                     const ResolvedModule& out) {
    for (Gemm gemm : kGemms) {
      if (out.gemm(gemm).high_precision) continue;
      const auto [a, b] = Operands(gemm);
      const std::optional<OperandConflict> conflict =
          FindConflict(gemm, out.policy(a), out.policy(b));
      if (!conflict) continue;
      const Giver& at = givers_[static_cast<size_t>(conflict->at)];
      const Giver& other = givers_[static_cast<size_t>(conflict->other)];
      if (!reported_.emplace(gemm, at.path, other.path).second) continue;
      AddOperandFault(*conflict, at, other,
                      absl::StrCat(" of module ", Quoted(c.example),
                                   phase == nullptr ? "" : " in ",
                                   phase == nullptr ? "" : phase->path),
                      faults_);
    }
  }

  const std::string kDefaults = "defaults";
  const std::string kBuiltIn = "built-in";
  const std::string kMatmul = "matmul";
  const std::string kAmaxReduction = "amax_reduction";

  const NormalRecipe& recipe_;
  const SourceMap& source_;
  const std::vector<int>& active_;
  const absl::Span<const std::string> modules_;
  const IdleRules idle_rules_;
  Faults faults_;

  std::vector<RuleState> rules_;
  std::vector<std::string> patterns_;
  absl::flat_hash_map<std::string, int> pattern_ids_;
  std::vector<std::vector<uint32_t>> rules_of_;  // by pattern
  std::vector<std::vector<int>> matched_;        // patterns, by module
  // By pattern: module -> layer number, for patterns of by-layer rules.
  std::vector<absl::flat_hash_map<size_t, int64_t>> layers_;
  std::vector<Class> classes_;
  std::vector<uint32_t> class_of_;  // by module
  std::vector<ResolvedModule> distinct_;
  std::vector<std::string> warnings_;
  std::array<Giver, 3> givers_;  // by Role, of the class being resolved
  // Conflicts of operands that faults_ has already.
  std::set<std::tuple<Gemm, const std::string*, const std::string*>> reported_;
};

}  // namespace

absl::StatusOr<ResolvedModules> ResolveModules(
    const NormalRecipe& recipe, const SourceMap& source,
    const std::vector<int>& active, absl::Span<const std::string> modules,
    IdleRules idle_rules) {
  return Resolver(recipe, source, active, modules, idle_rules).Run();
}

}  // namespace scalekeeper
