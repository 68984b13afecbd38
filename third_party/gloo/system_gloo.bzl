"""Gloo as the machine has it (Debian: libgloo-dev), or none."""

_ABSENT = """
package(default_visibility = ["//visibility:public"])

cc_library(name = "gloo")
"""

_PRESENT = """
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "gloo",
    linkopts = ["-lgloo"],
)
"""

def _system_gloo_impl(rctx):
    found = rctx.path("/usr/include/gloo/context.h").exists
    rctx.file("BUILD.bazel", _PRESENT if found else _ABSENT)
    rctx.file("gloo_config.bzl", "HAVE_GLOO = %s\n" % found)

system_gloo = repository_rule(
    implementation = _system_gloo_impl,
    local = True,
    doc = "Target gloo, an empty one where no Gloo is found; HAVE_GLOO tells.",
)
