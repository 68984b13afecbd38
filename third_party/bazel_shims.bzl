"""Two small repositories that Debian's Bazel 4.2.3 needs."""

# Debian's bazel-rules-cc 0.0.4 does not load in its Bazel 4.2.3: the native
# rules under rules_cc's names stand in for it.
_RULES_CC = "\n".join(['"""The native C++ rules under rules_cc\'s names."""'] + [
    "%s = native.%s" % (rule, rule)
    for rule in [
        "cc_binary",
        "cc_import",
        "cc_library",
        "cc_proto_library",
        "cc_test",
        "cc_toolchain",
        "cc_toolchain_suite",
        "fdo_prefetch_hints",
        "fdo_profile",
        "objc_library",
    ]
]) + "\n"

def _rules_cc_shim_impl(rctx):
    rctx.file("BUILD.bazel", "")
    rctx.file("cc/BUILD.bazel", "")
    rctx.file("cc/defs.bzl", _RULES_CC)

rules_cc_shim = repository_rule(implementation = _rules_cc_shim_impl)

# Bazel 4.2.3 reaches for the network for these two unless they exist. No
# coverage is collected with them.
def _coverage_shim_impl(rctx):
    rctx.file("BUILD.bazel", """package(default_visibility = ["//visibility:public"])

filegroup(name = "coverage_report_generator")

filegroup(name = "lcov_merger")
""")

coverage_shim = repository_rule(implementation = _coverage_shim_impl)
