// Checks of rules against each other, before module names are known.
//
// A rule is certain to match the modules of a class when it has the class's
// selector or is ".*"; any other rule may match some of them. An item of a
// class is known when the first rule that sets it is certain to match.
#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "recipe/check.h"

namespace scalekeeper {
namespace {

constexpr size_t kNever = std::numeric_limits<size_t>::max();
constexpr int kNoRule = -1;  // the class of modules that only ".*" matches

using FirstSetters = std::array<size_t, kItemCount>;

FirstSetters NoSetters() {
  FirstSetters none;
  none.fill(kNever);
  return none;
}

// Who sets an item first in one list of rules.
class RuleList {
 public:
  enum class Answer { kNobody, kKnown, kUnknown };

  RuleList(const std::vector<NormalRule>& rules,
           absl::flat_hash_map<std::string, int>& selector_ids)
      : rules_(rules) {
    specific_.fill({kNever, kNever});
    for (size_t r = 0; r < rules.size(); ++r) {
      const int id = selector_ids
                         .emplace(SelectorKey(rules[r].selector),
                                  static_cast<int>(selector_ids.size()))
                         .first->second;
      selectors_.push_back(id);
      const bool all = SelectsAll(rules[r].selector);
      FirstSetters& own =
          all ? by_all_ : by_selector_.emplace(id, NoSetters()).first->second;
      const uint32_t bits = ItemBits(rules[r].items);
      for (size_t item = 0; item < kItemCount; ++item) {
        if ((bits >> item & 1u) == 0) continue;
        own[item] = std::min(own[item], r);
        if (!all) NoteSpecific(item, r, id);
      }
    }
  }

  // `selector` is the class; kNoRule for modules that only ".*" matches.
  Answer First(int selector, size_t item, size_t& rule) const {
    rule = by_all_[item];
    const auto own = by_selector_.find(selector);
    if (own != by_selector_.end()) rule = std::min(rule, own->second[item]);
    size_t uncertain = kNever;
    if (selector != kNoRule) {
      for (size_t r : specific_[item]) {
        if (r != kNever && selectors_[r] != selector) {
          uncertain = std::min(uncertain, r);
        }
      }
    }
    if (rule == kNever && uncertain == kNever) return Answer::kNobody;
    return rule < uncertain ? Answer::kKnown : Answer::kUnknown;
  }

  const std::vector<NormalRule>& rules() const { return rules_; }
  const std::vector<int>& selectors() const { return selectors_; }

 private:
  // Keeps the first two rules with different selectors that set the item.
  void NoteSpecific(size_t item, size_t rule, int selector) {
    auto& [first, second] = specific_[item];
    if (first == kNever) {
      first = rule;
    } else if (second == kNever && selectors_[first] != selector) {
      second = rule;
    }
  }

  const std::vector<NormalRule>& rules_;
  std::vector<int> selectors_;  // by rule
  FirstSetters by_all_ = NoSetters();
  absl::flat_hash_map<int, FirstSetters> by_selector_;
  std::array<std::array<size_t, 2>, kItemCount> specific_;
};

class OperandChecker {
 public:
  OperandChecker(const NormalRecipe& recipe, Faults& faults)
      : recipe_(recipe), faults_(faults), rules_(recipe.rules, selector_ids_) {}

  void Run() {
    if (recipe_.phases.empty() || recipe_.phases[0].from_step > 0) {
      CheckPhase(nullptr);
    }
    for (const NormalPhase& phase : recipe_.phases) CheckPhase(&phase);
  }

 private:
  void CheckPhase(const NormalPhase* phase) {
    static const std::vector<NormalRule>* const kNoRules =
        new std::vector<NormalRule>;
    const RuleList own(phase == nullptr ? *kNoRules : phase->rules,
                       selector_ids_);
    CheckClass(kNoRule, phase, own);
    for (int selector : own.selectors()) CheckClass(selector, phase, own);
    for (int selector : rules_.selectors()) {
      if (checks_ > kMostChecks) return;  // left to Resolve
      CheckClass(selector, phase, own);
    }
  }

  // The item's first setter if it is known: the message and who it is.
  const Items* Find(int selector, size_t item, const NormalPhase* phase,
                    const RuleList& own, Giver& giver) const {
    size_t rule = 0;
    const auto known = [&](const RuleList& list,
                           RuleList::Answer answer) -> const Items* {
      if (answer == RuleList::Answer::kUnknown) return nullptr;
      giver = {&list.rules()[rule].path, &list.rules()[rule].origin, false};
      return &list.rules()[rule].items;
    };
    const RuleList::Answer first = own.First(selector, item, rule);
    if (first != RuleList::Answer::kNobody) return known(own, first);
    if (phase != nullptr && (ItemBits(phase->items) >> item & 1u) != 0) {
      giver = {&phase->path, &phase->path, false};
      return &phase->items;
    }
    const RuleList::Answer second = rules_.First(selector, item, rule);
    if (second != RuleList::Answer::kNobody) return known(rules_, second);
    static const std::string* const kDefaults = new std::string("defaults");
    giver = {kDefaults, kDefaults, false};
    return &recipe_.defaults;
  }

  void CheckClass(int selector, const NormalPhase* phase, const RuleList& own) {
    ++checks_;
    std::array<Giver, 3> givers;
    std::array<const Policy*, 3> policies = {};  // null: not known
    for (size_t i = 0; i < 3; ++i) {
      const Items* items = Find(selector, i, phase, own, givers[i]);
      if (items == nullptr || !items->policies[i]) continue;
      policies[i] = &*items->policies[i];
      givers[i].by_all = items->said_by_all[i];
    }
    for (Gemm gemm : kGemms) {
      const auto [role_a, role_b] = Operands(gemm);
      const Policy* a = policies[static_cast<size_t>(role_a)];
      const Policy* b = policies[static_cast<size_t>(role_b)];
      if (a == nullptr || b == nullptr) continue;
      const std::optional<OperandConflict> conflict =
          FindConflict(gemm, *a, *b);
      if (!conflict) continue;
      const auto g = static_cast<size_t>(gemm);
      Giver giver;
      const Items* items = Find(selector, 3 + g, phase, own, giver);
      if (items == nullptr || !items->gemms[g] ||
          items->gemms[g]->high_precision) {
        continue;
      }
      const Giver& at = givers[static_cast<size_t>(conflict->at)];
      const Giver& other = givers[static_cast<size_t>(conflict->other)];
      if (!reported_.emplace(gemm, *at.path, *other.path).second) continue;
      AddOperandFault(*conflict, at, other, "", faults_);
    }
  }

  static constexpr size_t kMostChecks = 1000000;

  const NormalRecipe& recipe_;
  Faults& faults_;
  absl::flat_hash_map<std::string, int> selector_ids_;
  const RuleList rules_;
  std::set<std::tuple<Gemm, std::string, std::string>> reported_;
  size_t checks_ = 0;
};

void CheckHidden(const std::vector<NormalRule>& rules, Faults& faults) {
  struct Taken {
    uint32_t bits = 0;
    std::string by;
  };
  absl::flat_hash_map<std::string, Taken> by_selector;
  Taken by_all;
  for (const NormalRule& rule : rules) {
    const uint32_t bits = ItemBits(rule.items);
    Taken& same = by_selector[SelectorKey(rule.selector)];
    const bool hidden = bits != 0 && (bits & ~(same.bits | by_all.bits)) == 0;
    if (hidden) {
      const bool by_same = (bits & ~same.bits) == 0;
      faults.Add(
          rule.path,
          absl::StrCat("never applies: ", by_same ? same.by : by_all.by,
                       by_same ? " with the same pattern" : " with \".*\"",
                       " sets all its items first, want it before that rule or "
                       "removed"));
    }
    Taken& taken = SelectsAll(rule.selector) ? by_all : same;
    if ((bits & ~taken.bits) != 0) taken.by = rule.path;
    taken.bits |= bits;
  }
}

}  // namespace

void CheckHiddenRules(const NormalRecipe& recipe, Faults& faults) {
  CheckHidden(recipe.rules, faults);
  for (const NormalPhase& phase : recipe.phases) {
    CheckHidden(phase.rules, faults);
  }
}

void CheckOperands(const NormalRecipe& recipe, Faults& faults) {
  OperandChecker(recipe, faults).Run();
}

}  // namespace scalekeeper
