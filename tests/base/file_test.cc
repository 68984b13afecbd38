#include "base/file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::HasSubstr;

std::string Path(const std::string& name) {
  return ::testing::TempDir() + "/" + name;
}

TEST(FileTest, WhatIsWrittenIsRead) {
  const std::string bytes("a\0b\n", 4);
  ASSERT_THAT(WriteFile(Path("bytes"), bytes), IsOk());
  EXPECT_THAT(ReadFile(Path("bytes")), IsOkAndHolds(bytes));
  EXPECT_THAT(ReadFile(Path("bytes"), 2), IsOkAndHolds(bytes.substr(0, 2)));
  EXPECT_THAT(ReadFile(Path("bytes"), 4), IsOkAndHolds(bytes));
  EXPECT_THAT(ReadFile(Path("bytes"), 5), IsOkAndHolds(bytes));
}

TEST(FileTest, DurablyIsTheSameOtherwise) {
  ASSERT_THAT(WriteFile(Path("durable"), "old"), IsOk());
  ASSERT_THAT(WriteFileDurably(Path("durable"), "new"), IsOk());
  EXPECT_THAT(ReadFile(Path("durable")), IsOkAndHolds("new"));
  EXPECT_THAT(WriteFileDurably("/no/such/folder/x", "y"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("/no/such/folder/x: cannot be written")));
}

TEST(FileTest, LinksAreFollowedAndStay) {
  ASSERT_THAT(WriteFile(Path("real"), "old"), IsOk());
  ASSERT_EQ(chmod(Path("real").c_str(), 0600), 0);
  (void)unlink(Path("link").c_str());
  ASSERT_EQ(symlink(Path("real").c_str(), Path("link").c_str()), 0);
  ASSERT_THAT(WriteFile(Path("link"), "new"), IsOk());
  EXPECT_THAT(ReadFile(Path("real")), IsOkAndHolds("new"));
  struct stat status = {};
  ASSERT_EQ(lstat(Path("link").c_str(), &status), 0);
  EXPECT_TRUE(S_ISLNK(status.st_mode));
  ASSERT_EQ(stat(Path("real").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
  EXPECT_TRUE(SameFile(Path("real"), Path("link")));
  EXPECT_FALSE(SameFile(Path("real"), Path("nothing")));
}

TEST(FileTest, AFailedWriteLeavesTheOldFileAndNamesThePath) {
  EXPECT_THAT(WriteFile("/no/such/folder/x", "y"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("/no/such/folder/x: cannot be written")));
  EXPECT_THAT(ReadFile("/no/such/file"), StatusIs(absl::StatusCode::kNotFound,
                                                  HasSubstr("/no/such/file")));
  EXPECT_THAT(
      ReadFile(::testing::TempDir()),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("directory")));
}

}  // namespace
}  // namespace scalekeeper
