"""The repositories that Scalekeeper needs, each one defined only where missing."""

load("//third_party:bazel_shims.bzl", "coverage_shim", "rules_cc_shim")
load("//third_party:system_abseil.bzl", "system_abseil")
load("//third_party/cuda:system_cuda.bzl", "system_cuda")
load("//third_party/gloo:system_gloo.bzl", "system_gloo")

def _have(name):
    return native.existing_rule(name) != None

# Repository -> its BUILD file here; each one lies under /usr on the system.
_SYSTEM_LIBRARIES = {
    "dlpack": "dlpack.BUILD",
    "google_benchmark": "google_benchmark.BUILD",
    "googletest": "googletest.BUILD",
    "protobuf": "protobuf.BUILD",
    "re2": "re2.BUILD",
    # The name under which Bazel's own proto rules look for protoc.
    "com_google_protobuf": "com_google_protobuf.BUILD",
}

_BAZEL_RULES = {
    "bazel_skylib": "/usr/share/bazel/tools/skylib",
    "platforms": "/usr/share/bazel/platforms",
    "rules_java": "/usr/share/bazel/rules/java",
    "rules_proto": "/usr/share/bazel/rules/proto",
}

def scalekeeper_repositories():
    """Defines what is missing, from the libraries that the system has installed."""
    for name, path in _BAZEL_RULES.items():
        if not _have(name):
            native.local_repository(name = name, path = path)
    for name, build_file in _SYSTEM_LIBRARIES.items():
        if not _have(name):
            native.new_local_repository(
                name = name,
                path = "/usr",
                build_file = "@scalekeeper//third_party:" + build_file,
            )
    if not _have("rules_cc"):
        rules_cc_shim(name = "rules_cc")
    if not _have("remote_coverage_tools"):
        coverage_shim(name = "remote_coverage_tools")
    if not _have("abseil-cpp"):
        system_abseil(name = "abseil-cpp")
    if not _have("scalekeeper_cuda"):
        system_cuda(name = "scalekeeper_cuda")
    if not _have("scalekeeper_gloo"):
        system_gloo(name = "scalekeeper_gloo")
