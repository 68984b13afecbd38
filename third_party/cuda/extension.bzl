"""The repository scalekeeper_cuda for Bazel versions that read MODULE.bazel."""

load("//third_party/cuda:system_cuda.bzl", "system_cuda")

def _impl(_module_ctx):
    system_cuda(name = "scalekeeper_cuda")

system_cuda_extension = module_extension(implementation = _impl)
