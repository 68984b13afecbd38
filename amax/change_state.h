// Changes of a frozen RecipeState while a job runs: another recipe, other
// modules, other groups of ranks.
//
//   ApplyRecipe  the recipe is replaced (a margin, a format, a phase more)
//   Refreeze     modules come and go (LoRA adapters, experts that move, another
//                pipeline split)
//   Rebind       groups get other communicators (an elastic restart with
//                another number of ranks)
//
// What can be carried over is, by the names of slots: scales, windows,
// observations, flags, the step's number, counters. How a slot gets on under
// another policy is that of LoadState (amax/load_state.h), whose report the
// result holds: new slots are in `missing`, those that went in `extra`. What
// was on its way under update.staleness is updated first (ApplyRecipe,
// Refreeze) or carried over (Rebind). RestorePrevious fails until the next
// step.
//
// Handles. A SlotId keeps its slot for ever: of a module that was removed, Has
// says no, View is empty, and a quantizer fails by name; when the module is
// added again it is the same slot. Quantizers that MakeQuantizer made go on
// with what holds now. SlotViews and message addresses are void: get them
// again.
//
// CUDA graphs hold those addresses: once an EndStep of the state was captured,
// a change is FailedPrecondition ("recapture needed") unless options.recapture
// says that the program captures anew and never replays an old graph.
//
// Collective over every bound group (of Rebind: the new ones), as Freeze is,
// and with its comparison of recipes and slots; ranks that stand at different
// steps get FailedPrecondition, all of them. Synchronizes. Between steps. Needs
// memory for a second state meanwhile. After an error the state is what it was.
// A change that changes nothing is found out together and resets nothing; the
// result says so.
//
// Threads: nothing else may use the state or its quantizers meanwhile.
//
// Example: an adapter comes, an expert goes to another rank.
//   ModuleChanges changes;
//   changes.add.push_back({"layers.3.fc1.lora_a"});
//   changes.remove.push_back("layers.3.experts.7");
//   SK_ASSIGN_OR_RETURN(ChangeReport report,
//                       Refreeze(changes, ChangeOptions(), stream, state));
//   SK_ASSIGN_OR_RETURN(ModuleSlots slots,
//                       state->FindModule("layers.3.fc1.lora_a"));
#ifndef SCALEKEEPER_AMAX_CHANGE_STATE_H_
#define SCALEKEEPER_AMAX_CHANGE_STATE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "amax/communicator.h"
#include "amax/load_state.h"
#include "amax/recipe_state.h"
#include "base/device.h"
#include "recipe/recipe.h"

namespace scalekeeper {

struct ChangeOptions {
  bool recapture = false;  // the program captures its CUDA graphs anew
};

struct ChangeReport {
  bool changed = false;
  LoadReport carried;
};

absl::StatusOr<ChangeReport> ApplyRecipe(Recipe recipe,
                                         const ChangeOptions& options,
                                         Stream stream, RecipeState* state);

struct ModuleChanges {
  struct Module {
    std::string name;
    std::string identity = {};  // AddModule's
  };
  std::vector<Module> add;
  std::vector<std::string> remove;  // before anything is added
};

// InvalidArgument, besides Freeze's errors, for a module that is added though
// it is there, or removed though it is not.
absl::StatusOr<ChangeReport> Refreeze(const ModuleChanges& changes,
                                      const ChangeOptions& options,
                                      Stream stream, RecipeState* state);

// `groups` as in RecipeStateOptions; the communicators that they replace are
// not used any more, and may be broken.
absl::StatusOr<ChangeReport> Rebind(std::map<std::string, Communicator*> groups,
                                    const ChangeOptions& options, Stream stream,
                                    RecipeState* state);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_CHANGE_STATE_H_
