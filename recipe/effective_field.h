// One field that bears on a run, as `scalekeeper diff` shows it.
#ifndef SCALEKEEPER_RECIPE_EFFECTIVE_FIELD_H_
#define SCALEKEEPER_RECIPE_EFFECTIVE_FIELD_H_

#include <string>

namespace scalekeeper {

struct EffectiveField {
  std::string path;   // "rule[1].grad.delayed.margin"
  std::string value;  // as in recipe text
  bool is_default = false;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_RECIPE_EFFECTIVE_FIELD_H_
