// The parameters that a recipe passes to a custom quantizer's factory, as plain
// values: what google.protobuf.Struct and JSON objects can say.
//
// In recipe text they are a Struct, in Policy::custom one line of JSON.
// Threads: plain values.
//
// Example (in a factory):
//   SK_ASSIGN_OR_RETURN(Parameters parameters,
//                       ParseParameters(policy.custom.parameters));
//   const auto bits = parameters.find("bits");  // {"bits":8}
//   if (bits != parameters.end()) std::get<double>(bits->second.value);  // 8
//   ParseParameters("{bits: 8}");  // InvalidArgument: parameters: offset 1:
//                                  //     got 'b', want a name in double quotes
#ifndef SCALEKEEPER_RECIPE_PARAMETERS_H_
#define SCALEKEEPER_RECIPE_PARAMETERS_H_

#include <cstddef>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace scalekeeper {

struct ParameterValue;
using Parameters = std::map<std::string, ParameterValue>;
using ParameterList = std::vector<ParameterValue>;

struct ParameterValue {
  // std::nullptr_t is JSON's null; numbers are finite.
  std::variant<std::nullptr_t, bool, double, std::string, ParameterList,
               Parameters>
      value;
};

// Objects and lists within each other, the outermost included.
inline constexpr int kMaxParameterDepth = 16;

// A JSON object on one line: names sorted, no blanks, numbers with the fewest
// digits. Equal parameters give equal text.
std::string CanonicalJson(const Parameters& parameters);

// Any JSON object. InvalidArgument, with the offset in bytes, for other texts,
// a name that an object has twice, a number that double cannot hold, and
// nesting deeper than kMaxParameterDepth.
absl::StatusOr<Parameters> ParseParameters(absl::string_view json);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_RECIPE_PARAMETERS_H_
