"""The CUDA toolkit (with cuBLASLt and NCCL) as the machine has it, or none."""

def _find_prefix(rctx):
    candidates = []
    if "CUDA_HOME" in rctx.os.environ:
        candidates.append(rctx.os.environ["CUDA_HOME"])
    nvcc = rctx.which("nvcc")
    if nvcc:
        candidates.append(str(nvcc.realpath.dirname.dirname))
    candidates.append("/usr/local/cuda")
    for prefix in candidates:
        if rctx.path(prefix + "/bin/nvcc").exists and rctx.path(prefix + "/include/cuda_runtime.h").exists:
            return prefix
    return None

_ABSENT = """
package(default_visibility = ["//visibility:public"])

[cc_library(name = name) for name in ["headers", "cudart", "cublaslt", "nccl"]]
"""

_PRESENT = """
package(default_visibility = ["//visibility:public"])

# Its presence tells that there is a toolkit.
filegroup(name = "toolkit")

cc_library(
    name = "headers",
    hdrs = glob(["include/**"]),
    includes = ["include"],
)

cc_library(
    name = "cudart",
    linkopts = ["-L{lib}", "-l:libcudart_static.a", "-ldl", "-lrt", "-lpthread"],
    deps = [":headers"],
)

cc_library(
    name = "cublaslt",
    linkopts = ["-L{lib}", "-lcublasLt", "-Wl,-rpath,{lib}"],
    deps = [":cudart"],
)

cc_library(
    name = "nccl",
    linkopts = ["-L{lib}", "-lnccl", "-Wl,-rpath,{lib}"],
    deps = [":cudart"],
)
"""

def _system_cuda_impl(rctx):
    prefix = _find_prefix(rctx)
    if not prefix:
        rctx.file("BUILD.bazel", _ABSENT)
        rctx.file("cuda_config.bzl", "HAVE_CUDA = False\nNVCC = \"\"\n")
        return
    lib = prefix + ("/lib64" if rctx.path(prefix + "/lib64").exists else "/lib")
    rctx.symlink(prefix + "/include", "include")
    rctx.file("BUILD.bazel", _PRESENT.format(lib = lib))
    rctx.file("cuda_config.bzl", "HAVE_CUDA = True\nNVCC = \"%s/bin/nvcc\"\n" % prefix)

system_cuda = repository_rule(
    implementation = _system_cuda_impl,
    environ = ["CUDA_HOME", "PATH"],
    local = True,
    doc = "Targets headers, cudart, cublaslt and nccl; empty ones where no toolkit is found.",
)
