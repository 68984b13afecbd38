// What a recipe says, as a flat list: the base of its fingerprint and of
// `diff`.
#ifndef SCALEKEEPER_RECIPE_EFFECTIVE_FIELDS_H_
#define SCALEKEEPER_RECIPE_EFFECTIVE_FIELDS_H_

#include <string>
#include <vector>

#include "recipe/effective_field.h"
#include "recipe/normal_form.h"

namespace scalekeeper {

// Every field that bears on a run, with roles in place of `all` and inherited
// values in place, in a fixed order. Two recipes with equal lists of fields
// that are not defaults do the same.
std::vector<EffectiveField> EffectiveFields(const NormalRecipe& recipe);

// 16 hexadecimal digits: FNV-1a (64 bits) over kNumericsVersion and the fields
// that are not defaults. Fields with a default can be added to the schema
// without changing any fingerprint.
std::string FingerprintOf(const std::vector<EffectiveField>& fields);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_RECIPE_EFFECTIVE_FIELDS_H_
