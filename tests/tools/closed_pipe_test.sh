#!/bin/bash
# A reader that goes away must not crash the program.
set -u
program="$1"
names="$TEST_TMPDIR/names.txt"
for i in $(seq 1 20000); do echo "layers.$i.fc1"; done > "$names"

"$program" explain delayed_hybrid --modules="$names" | head -n 2 > "$TEST_TMPDIR/head"
codes=("${PIPESTATUS[@]}")
if [[ "${codes[0]}" != 0 ]]; then
  echo "explain into a closed pipe: got exit code ${codes[0]}, want 0"
  exit 1
fi
if [[ "$(wc -l < "$TEST_TMPDIR/head")" != 2 ]]; then
  echo "explain printed less than two lines"
  exit 1
fi

# A full disk is not success.
if [[ -w /dev/full ]] && "$program" presets > /dev/full 2> "$TEST_TMPDIR/err"; then
  echo "presets on a full disk: got exit code 0"
  exit 1
fi
echo ok
