// The parsed message -> RecipeSpec, with the place of every field.
#ifndef SCALEKEEPER_RECIPE_SPEC_FROM_PROTO_H_
#define SCALEKEEPER_RECIPE_SPEC_FROM_PROTO_H_

#include <google/protobuf/text_format.h>

#include "proto/recipe.pb.h"
#include "recipe/parse.h"
#include "recipe/source_text.h"

namespace scalekeeper {

// `locations` come from the parser that made `message` from `text`.
ParsedRecipe SpecFromProto(
    const proto::Recipe& message,
    const google::protobuf::TextFormat::ParseInfoTree& locations,
    const SourceText& text);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_RECIPE_SPEC_FROM_PROTO_H_
