# Counts test cases in concatenated test.xml files (GoogleTest's, and those that
# Bazel writes for shell tests): prints "passed failed skipped".
function finish() {
  if (!open) return
  if (bad) failed++
  else if (skip) skipped++
  else passed++
  open = 0
}
/<testcase / {
  finish()
  open = 1
  bad = 0
  skip = ($0 ~ /result="(skipped|suppressed)"/) || ($0 ~ /status="notrun"/)
}
open && /<(failure|error)[ >\/]/ { bad = 1 }
open && /<skipped/ { skip = 1 }
END {
  finish()
  print passed + 0, failed + 0, skipped + 0
}
