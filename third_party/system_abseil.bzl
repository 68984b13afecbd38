"""Abseil from the system's static archives, under Abseil's own package names."""

# package -> targets in it. Every target links all archives, in one group.
_PACKAGES = {
    "algorithm": ["container"],
    "base": ["core_headers"],
    "container": ["btree", "flat_hash_map", "flat_hash_set", "inlined_vector"],
    "flags": ["flag", "parse", "usage"],
    "hash": ["hash"],
    "memory": ["memory"],
    "meta": ["type_traits"],
    "numeric": ["bits", "int128"],
    "random": ["random"],
    "status": ["status", "statusor"],
    "strings": ["str_format", "strings"],
    "synchronization": ["synchronization"],
    "time": ["time"],
    "types": ["optional", "span", "variant"],
}

def _system_abseil_impl(rctx):
    found = rctx.execute(["sh", "-c", "ls -d /usr/lib/*/libabsl_strings.a /usr/lib/libabsl_strings.a /usr/lib64/libabsl_strings.a 2>/dev/null | head -n 1"])
    path = found.stdout.strip()
    if not path:
        fail("system_abseil: no libabsl_strings.a under /usr/lib; install libabsl-dev, or define the repository '%s' yourself before scalekeeper_repositories()" % rctx.name)
    folder = path[:path.rfind("/")]
    listing = rctx.execute(["sh", "-c", "ls " + folder + "/libabsl_*.a"])
    archives = []
    for line in listing.stdout.split("\n"):
        name = line[line.rfind("/") + 1:]
        if name and "test_util" not in name:
            archives.append("-l:" + name)
    linkopts = ["-Wl,--start-group"] + archives + ["-Wl,--end-group", "-lpthread"]
    rctx.file("BUILD.bazel", """
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "archives",
    linkopts = {linkopts},
)
""".format(linkopts = repr(linkopts)))
    for package, targets in _PACKAGES.items():
        text = 'package(default_visibility = ["//visibility:public"])\n'
        for target in targets:
            text += 'cc_library(name = "%s", deps = ["//:archives"])\n' % target
        rctx.file("absl/%s/BUILD.bazel" % package, text)

system_abseil = repository_rule(
    implementation = _system_abseil_impl,
    local = True,
    doc = "Abseil as the system has it (Debian: libabsl-dev).",
)
