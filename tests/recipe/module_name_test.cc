#include "recipe/module_name.h"

#include "gtest/gtest.h"

namespace scalekeeper {
namespace {

TEST(CanonicalModuleNameTest, WrappersAreNoPartOfAName) {
  for (const char* wrapped :
       {"layers.0.fc1", "module.layers.0.fc1", "module.module.layers.0.fc1",
        "_orig_mod.layers.0.fc1", "module._orig_mod.layers.0.fc1",
        "_orig_mod.module.layers.0.fc1",
        "_fsdp_wrapped_module.layers.0._fsdp_wrapped_module.fc1",
        "layers.0._checkpoint_wrapped_module.fc1", "layers.0.fc1._orig_mod"}) {
    EXPECT_EQ(CanonicalModuleName(wrapped), "layers.0.fc1") << wrapped;
  }
}

TEST(CanonicalModuleNameTest, OnlyWholeComponentsCount) {
  for (const char* name : {"modules.0", "my_module.fc", "a._orig_mod2.b",
                           "submodule", "", "module", "a..b"}) {
    EXPECT_EQ(CanonicalModuleName(name), name);
  }
}

}  // namespace
}  // namespace scalekeeper
