// A program's own quantizers: registered by name, named in a recipe.
//
//   custom { factory: "my_team.log8" parameters { ... } }
//
// A factory makes a subclass of Quantizer, for which QuantizeImpl alone is
// required; MakeEmptyImpl (codes that are not one byte an element, column-wise
// copies), DequantizeImpl (also for Matmul), CalibrateImpl and MeasureImpl are
// what else it may offer. Nothing in the library asks for its class.
//
// Threads: RegisterQuantizer and MakeQuantizer at any time, from any thread.
// Registered factories live as long as the process. Order of calls: register,
// load the recipe, CheckFactories, then RecipeState.
//
// Example:
//   absl::StatusOr<std::unique_ptr<Quantizer>> MakeLog8(
//       const CustomQuantizerArgs& args) {
//     SK_RETURN_IF_ERROR(args.CheckKeys({"steps"}));
//     SK_ASSIGN_OR_RETURN(const double steps, args.Number("steps", 8));
//     return std::make_unique<Log8Quantizer>(args, steps);
//   }
//   SK_RETURN_IF_ERROR(RegisterQuantizer("my_team.log8", MakeLog8));
//   RegisterQuantizer("my_team.log8", MakeLog8);   // AlreadyExists
//   SK_ASSIGN_OR_RETURN(const Recipe recipe, Recipe::Load(path));
//   SK_RETURN_IF_ERROR(CheckFactories(recipe));
#ifndef SCALEKEEPER_QUANTIZER_CUSTOM_QUANTIZER_H_
#define SCALEKEEPER_QUANTIZER_CUSTOM_QUANTIZER_H_

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "amax/slot_view.h"
#include "base/buffer.h"
#include "base/device.h"
#include "quantizer/quantized_tensor.h"
#include "quantizer/quantizer.h"
#include "recipe/parameters.h"
#include "recipe/policy.h"
#include "recipe/recipe.h"

namespace scalekeeper {

// What a factory is given.
struct CustomQuantizerArgs {
  std::string name;  // the slot's
  Policy policy;     // custom; its parameters as one line of JSON
  // Its amax word alone, for an inf or NaN to raise the slot's flag; scale,
  // scale_inv and measure too where it is delayed in another phase.
  SlotView slot;
  Device device;
  Usages usages;
  Allocator* allocator = nullptr;  // borrowed
  Parameters parameters;           // policy.custom.parameters, parsed

  // A parameter, or what stands for one that is not given; without that it is
  // required. InvalidArgument naming slot, key and value on another type.
  absl::StatusOr<double> Number(absl::string_view key,
                                std::optional<double> otherwise = {}) const;
  absl::StatusOr<bool> Bool(absl::string_view key,
                            std::optional<bool> otherwise = {}) const;
  absl::StatusOr<std::string> Text(
      absl::string_view key, std::optional<std::string> otherwise = {}) const;
  // InvalidArgument naming a parameter that is none of `keys`.
  absl::Status CheckKeys(std::initializer_list<absl::string_view> keys) const;
};

using QuantizerFactory =
    std::function<absl::StatusOr<std::unique_ptr<Quantizer>>(
        const CustomQuantizerArgs&)>;

// InvalidArgument for an empty name or factory, AlreadyExists for a name that
// is taken.
absl::Status RegisterQuantizer(absl::string_view name,
                               const QuantizerFactory& factory);

// In alphabetical order.
std::vector<std::string> RegisteredQuantizers();

// NotFound listing every factory that the recipe names and nobody has
// registered, with the places that name it, and those that are registered.
// Allocates no memory of a device; MakeQuantizer of a custom slot calls it
// first.
absl::Status CheckFactories(const Recipe& recipe);

// What the factory that args.policy names makes of `args` (whose `parameters`
// are filled in here). NotFound, listing those that are registered; the
// factory's own error with its name; Internal, naming the factory, when it
// throws or returns null.
absl::StatusOr<std::unique_ptr<Quantizer>> MakeCustomQuantizer(
    CustomQuantizerArgs args);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_QUANTIZER_CUSTOM_QUANTIZER_H_
