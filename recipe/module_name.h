// One name for a module, whatever wraps it.
//
// Wrappers put components of their own into the names of modules: torch.compile
// `_orig_mod`, FSDP `_fsdp_wrapped_module`, activation checkpointing
// `_checkpoint_wrapped_module`, data parallelism and mixed precision `module`.
// A program that passes every name through here before AddModule has recipes
// and checkpoints that fit the bare and the wrapped model. It is for the
// program to do, because a module may well be called `module`; two that become
// one are refused by AddModule.
//
// Example:
//   CanonicalModuleName("module._orig_mod.layers.0._fsdp_wrapped_module.fc1");
//       // "layers.0.fc1"
#ifndef SCALEKEEPER_RECIPE_MODULE_NAME_H_
#define SCALEKEEPER_RECIPE_MODULE_NAME_H_

#include <string>

#include "absl/strings/string_view.h"

namespace scalekeeper {

// `name` without the components between dots that are wrappers'. A name of
// nothing else stays as it is.
std::string CanonicalModuleName(absl::string_view name);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_RECIPE_MODULE_NAME_H_
