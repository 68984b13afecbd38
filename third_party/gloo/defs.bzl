"""What targets that need Gloo are tagged with: none is built where it is not."""

load("@scalekeeper_gloo//:gloo_config.bzl", "HAVE_GLOO")

GLOO_TAGS = [] if HAVE_GLOO else ["manual"]
