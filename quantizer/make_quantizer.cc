// The one switch from a policy's scaling to a quantizer.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/device_memory.h"
#include "base/status_macros.h"
#include "quantizer/block_quantizer.h"
#include "quantizer/custom_quantizer.h"
#include "quantizer/high_precision_quantizer.h"
#include "quantizer/per_tensor_quantizer.h"
#include "quantizer/quantizer.h"
#include "quantizer/slot_quantizer.h"

namespace scalekeeper {
namespace {

absl::StatusOr<std::unique_ptr<Quantizer>> MakeForPolicy(
    const RecipeState& state, SlotId slot, const Policy& policy, Usages usages,
    Allocator* allocator) {
  const std::string& name = state.name(slot);
  const Device device = state.device();
  const bool wants_e2m1 = policy.scaling == Scaling::kNvfp4;
  if (policy.scaling != Scaling::kHighPrecision &&
      policy.scaling != Scaling::kCustom &&
      (policy.format == Format::kE2M1) != wants_e2m1) {
    return absl::UnimplementedError(absl::StrCat(
        name, ": got format ", Name(policy.format), " with ",
        Name(policy.scaling), ", want ", wants_e2m1 ? "E2M1" : "E4M3 or E5M2"));
  }
  switch (policy.scaling) {
    case Scaling::kHighPrecision:
      return std::make_unique<HighPrecisionQuantizer>(name, policy, device,
                                                      usages, allocator);
    case Scaling::kDelayed:
    case Scaling::kCurrent:
      return std::make_unique<PerTensorQuantizer>(
          name, policy, state.View(slot), state.amax_group(AmaxGroupOf(policy)),
          device, usages, allocator);
    case Scaling::kRowwise:
    case Scaling::kBlock:
    case Scaling::kMxfp8:
    case Scaling::kNvfp4:
      return std::make_unique<BlockQuantizer>(
          name, policy, state.View(slot), state.StepWord(),
          state.amax_group(AmaxGroupOf(policy)), device, usages, allocator);
    case Scaling::kCustom: {
      CustomQuantizerArgs args;
      args.name = name;
      args.policy = policy;
      args.slot = state.View(slot);
      args.device = device;
      args.usages = usages;
      args.allocator = allocator;
      return MakeCustomQuantizer(std::move(args));
    }
  }
  return absl::InternalError(
      absl::StrCat(name, ": scaling is not one of the enumeration"));
}

absl::StatusOr<std::vector<std::unique_ptr<Quantizer>>> MakePhases(
    const RecipeState& state, SlotId slot, Usages usages,
    Allocator* allocator) {
  const std::vector<Policy>& policies = state.policies(slot);
  bool phased = false;
  bool custom = false;
  for (const Policy& policy : policies) {
    phased |= policy != policies.front();
    custom |= policy.scaling == Scaling::kCustom;
  }
  if (custom) {
    const absl::Status known = CheckFactories(state.recipe());
    if (!known.ok()) {
      return absl::Status(
          known.code(), absl::StrCat(state.name(slot), ": ", known.message()));
    }
  }
  std::vector<std::unique_ptr<Quantizer>> phases;
  for (const Policy& policy : policies) {
    SK_ASSIGN_OR_RETURN(std::unique_ptr<Quantizer> quantizer,
                        MakeForPolicy(state, slot, policy, usages, allocator));
    phases.push_back(std::move(quantizer));
    if (!phased) break;
  }
  return phases;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Quantizer>> MakeQuantizer(RecipeState* state,
                                                         SlotId slot,
                                                         Usages usages,
                                                         Allocator* allocator) {
  if (state == nullptr) {
    return absl::InvalidArgumentError("state: got a null pointer");
  }
  if (!state->frozen()) {
    return absl::FailedPreconditionError(
        "MakeQuantizer: the RecipeState is not frozen; call Freeze first");
  }
  if (slot.value < 0 ||
      static_cast<size_t>(slot.value) >= state->slot_count()) {
    return absl::InvalidArgumentError(
        absl::StrCat("slot: got ", slot.value, ", want 0..",
                     state->slot_count(), " exclusive"));
  }
  if (allocator == nullptr) {
    SK_ASSIGN_OR_RETURN(allocator, DefaultAllocator(state->device()));
  }
  auto quantizer = std::make_unique<SlotQuantizer>(state, slot, MakePhases,
                                                   usages, allocator);
  SK_RETURN_IF_ERROR(quantizer->RefreshImpl());
  quantizer->set_inference(state->inference());
  return quantizer;
}

}  // namespace scalekeeper
