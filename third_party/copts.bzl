"""Options that our own code is built with. They do not reach a consumer's code."""

SCALEKEEPER_COPTS = [
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Werror",
    # numerics.md: one float32 operation is one rounding, also where a stack
    # builds for chips with fma.
    "-ffp-contract=off",
    # GCC 12 reports these inside inlined library code (absl, the standard library).
    "-Wno-maybe-uninitialized",
    "-Wno-stringop-overflow",
]

# Test sources meet GoogleTest's macros, which convert signs freely.
SCALEKEEPER_TEST_COPTS = SCALEKEEPER_COPTS + ["-Wno-sign-conversion"]
