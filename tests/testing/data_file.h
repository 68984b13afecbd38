// Reads files under tests/data/, as tests find them: relative to the root of
// the workspace, where `bazel test` runs them.
#ifndef SCALEKEEPER_TESTS_TESTING_DATA_FILE_H_
#define SCALEKEEPER_TESTS_TESTING_DATA_FILE_H_

#include <string>

namespace scalekeeper {

// The bytes of "tests/data/<name>". A file that cannot be read fails the test
// and gives an empty string.
std::string ReadDataFile(const std::string& name);

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TESTS_TESTING_DATA_FILE_H_
