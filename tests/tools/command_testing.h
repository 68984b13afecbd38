// Runs a subcommand without a process.
#ifndef SCALEKEEPER_TESTS_TOOLS_COMMAND_TESTING_H_
#define SCALEKEEPER_TESTS_TOOLS_COMMAND_TESTING_H_

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tools/command.h"

namespace scalekeeper {

struct CommandResult {
  int exit_code = 0;
  std::string out;
  std::string err;
};

inline CommandResult RunCommand(const std::vector<std::string>& args) {
  std::ostringstream out, err;
  const int exit_code = RunScalekeeper(args, out, err);
  return {exit_code, out.str(), err.str()};
}

// The path of a new file with that text.
inline std::string NewFile(const std::string& name, const std::string& text) {
  const std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

inline std::string FileText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TESTS_TOOLS_COMMAND_TESTING_H_
