// The enums of a recipe with the names that the schema gives their values.
#ifndef SCALEKEEPER_RECIPE_SCHEMA_ENUM_H_
#define SCALEKEEPER_RECIPE_SCHEMA_ENUM_H_

#include <array>

#include "absl/strings/string_view.h"
#include "recipe/policy.h"

namespace scalekeeper {

// kValues: all of them, in schema order; NameOf: as the schema spells one.
template <typename E>
struct SchemaEnum;

template <>
struct SchemaEnum<Format> {
  static constexpr std::array<Format, 3> kValues = {
      Format::kE4M3, Format::kE5M2, Format::kE2M1};
  static absl::string_view NameOf(Format v) { return Name(v); }
};
template <>
struct SchemaEnum<DType> {
  static constexpr std::array<DType, 3> kValues = {DType::kBF16, DType::kF16,
                                                   DType::kF32};
  static absl::string_view NameOf(DType v) { return RecipeName(v); }
};
template <>
struct SchemaEnum<AmaxComputeAlgo> {
  static constexpr std::array<AmaxComputeAlgo, 2> kValues = {
      AmaxComputeAlgo::kMax, AmaxComputeAlgo::kMostRecent};
  static absl::string_view NameOf(AmaxComputeAlgo v) { return Name(v); }
};
template <>
struct SchemaEnum<NonFiniteAmax> {
  static constexpr std::array<NonFiniteAmax, 3> kValues = {
      NonFiniteAmax::kSkip, NonFiniteAmax::kFreeze, NonFiniteAmax::kBackOff};
  static absl::string_view NameOf(NonFiniteAmax v) { return Name(v); }
};
template <>
struct SchemaEnum<FirstStep> {
  static constexpr std::array<FirstStep, 2> kValues = {FirstStep::kMeasure,
                                                       FirstStep::kUnit};
  static absl::string_view NameOf(FirstStep v) { return Name(v); }
};

template <>
struct SchemaEnum<BlockShape> {
  static constexpr std::array<BlockShape, 2> kValues = {BlockShape::k1x128,
                                                        BlockShape::k128x128};
  static absl::string_view NameOf(BlockShape v) { return Name(v); }
};
template <>
struct SchemaEnum<ScaleRounding> {
  static constexpr std::array<ScaleRounding, 2> kValues = {
      ScaleRounding::kUp, ScaleRounding::kOcpFloor};
  static absl::string_view NameOf(ScaleRounding v) { return Name(v); }
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_RECIPE_SCHEMA_ENUM_H_
