#!/bin/sh
# The pages that are made from the program and the schema are those of today.
set -eu
scalekeeper=$1 reference=$2 proto=$3 cli_page=$4 reference_page=$5
"$scalekeeper" help --markdown >"$TEST_TMPDIR/cli.md"
diff -u "$cli_page" "$TEST_TMPDIR/cli.md" || {
  echo "docs/cli.md is not what 'scalekeeper help --markdown' prints" >&2
  exit 1
}
"$reference" "$proto" >"$TEST_TMPDIR/recipe_reference.md"
diff -u "$reference_page" "$TEST_TMPDIR/recipe_reference.md" || {
  echo "docs/recipe_reference.md is not what //tools:recipe_reference makes" >&2
  exit 1
}
