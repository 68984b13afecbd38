#include "tests/testing/data_file.h"

#include <fstream>
#include <iterator>

#include "gtest/gtest.h"

namespace scalekeeper {

std::string ReadDataFile(const std::string& name) {
  std::ifstream file("tests/data/" + name, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << "cannot open tests/data/" << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace scalekeeper
