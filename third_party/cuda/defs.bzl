"""cuda_library: a cc_library whose .cu sources nvcc compiles."""

load("@rules_cc//cc:defs.bzl", "cc_library", "cc_test")
load("@scalekeeper_cuda//:cuda_config.bzl", "NVCC")

# The one list of architectures. sm_90 is what is measured; the others compile.
CUDA_ARCHITECTURES = [
    "90",
    "89",
    "100a",
    "120a",
]

_NVCC_FLAGS = [
    "-std=c++17",
    "-O3",
    "--expt-relaxed-constexpr",
    # numerics.md: one float32 operation is one rounding.
    "--fmad=false",
    "-Xcompiler=-fPIC,-ffp-contract=off,-Wall,-Wextra,-Wconversion",
    "-Werror=all-warnings",
]

def _cuda_objects_impl(ctx):
    context = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps]).compilation_context
    flags = list(_NVCC_FLAGS)
    for arch in CUDA_ARCHITECTURES:
        flags.append("-gencode=arch=compute_%s,code=sm_%s" % (arch, arch))
    for folder in context.quote_includes.to_list() + context.includes.to_list():
        flags += ["-I", folder]

    # Other people's headers are not warned about.
    for folder in context.system_includes.to_list():
        flags += ["-isystem", folder]
    objects = []
    for src in ctx.files.srcs:
        if src.extension != "cu":
            continue
        out = ctx.actions.declare_file(ctx.label.name + "/" + src.basename[:-3] + ".o")
        ctx.actions.run(
            executable = NVCC,
            arguments = flags + ["-c", src.path, "-o", out.path],
            inputs = depset(ctx.files.srcs + ctx.files.hdrs, transitive = [context.headers]),
            outputs = [out],
            env = {"PATH": "/usr/local/bin:/usr/bin:/bin"},
            mnemonic = "Nvcc",
            progress_message = "Compiling %s with nvcc" % src.short_path,
        )
        objects.append(out)
    return [DefaultInfo(files = depset(objects))]

_cuda_objects = rule(
    implementation = _cuda_objects_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu", ".cuh", ".h"]),
        "hdrs": attr.label_list(allow_files = True),
        "deps": attr.label_list(providers = [CcInfo]),
    },
)

def cuda_library(name, srcs, hdrs = [], deps = [], tags = [], **kwargs):
    """A library with CUDA sources; build it only under --config=cuda.

    Args:
      name: of the library.
      srcs: .cu files (compiled by nvcc for CUDA_ARCHITECTURES) and private headers.
      hdrs: public headers.
      deps: cc_library targets.
      tags: added to "manual", which keeps host-only builds away from nvcc.
      **kwargs: passed to cc_library.
    """
    testonly = kwargs.pop("testonly", False)
    _cuda_objects(
        name = name + "_objects",
        testonly = testonly,
        srcs = srcs,
        hdrs = hdrs,
        tags = tags + ["manual"],
        deps = deps + ["//third_party/cuda:headers"],
    )
    cc_library(
        name = name,
        testonly = testonly,
        srcs = [":" + name + "_objects"] + [s for s in srcs if not s.endswith(".cu") and not s.endswith(".cuh")],
        hdrs = hdrs,
        tags = tags + ["manual"],
        # A test's cases register themselves; nothing else refers to them.
        alwayslink = testonly,
        deps = deps + ["//third_party/cuda:cudart"],
        **kwargs
    )

def cuda_test(name, srcs, deps = [], tags = [], **kwargs):
    """A GoogleTest in CUDA; it runs only where there is a GPU (tag "gpu").

    Args:
      name: of the test.
      srcs: .cu files.
      deps: cc_library targets; GoogleTest's main is added.
      tags: added to "gpu" and "manual".
      **kwargs: passed to cc_test.
    """
    cuda_library(
        name = name + "_lib",
        srcs = srcs,
        testonly = True,
        deps = deps + ["@googletest//:gtest_main"],
    )
    cc_test(
        name = name,
        tags = tags + [
            "gpu",
            "manual",
        ],
        deps = [":" + name + "_lib"],
        **kwargs
    )
