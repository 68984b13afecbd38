"""The repository scalekeeper_gloo for Bazel versions that read MODULE.bazel."""

load("//third_party/gloo:system_gloo.bzl", "system_gloo")

def _impl(_module_ctx):
    system_gloo(name = "scalekeeper_gloo")

system_gloo_extension = module_extension(implementation = _impl)
