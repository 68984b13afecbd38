#include "base/text.h"

#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace scalekeeper {
namespace {

TEST(EditDistanceTest, CountsEditsAndSwaps) {
  EXPECT_EQ(EditDistance("", "", 9), 0u);
  EXPECT_EQ(EditDistance("abc", "", 9), 3u);
  EXPECT_EQ(EditDistance("kitten", "sitting", 9), 3u);
  EXPECT_EQ(EditDistance("histroy", "history", 9), 1u);
  EXPECT_EQ(EditDistance("ab", "ba", 9), 1u);
}

TEST(EditDistanceTest, StopsAtTheLimit) {
  EXPECT_EQ(EditDistance("kitten", "sitting", 3), 3u);
  EXPECT_EQ(EditDistance("kitten", "sitting", 2), 3u);
  EXPECT_EQ(EditDistance("kitten", "sitting", 1), 2u);
  EXPECT_EQ(EditDistance("a", "abcdefgh", 2), 3u);
}

TEST(NearestNameTest, FindsWhatWasMeantOrNothing) {
  const std::vector<std::string> names = {"margin", "amax_history_len",
                                          "amax_compute_algo", "E4M3"};
  EXPECT_EQ(NearestName("amax_histroy_len", names), "amax_history_len");
  EXPECT_EQ(NearestName("Margin", names), "margin");
  EXPECT_EQ(NearestName("e4m3", names), "E4M3");
  EXPECT_EQ(NearestName("something_else", names), "");
  EXPECT_EQ(NearestName("", names), "");
  EXPECT_EQ(NearestName("x", {}), "");
  EXPECT_EQ(DidYouMean("magrin", names), ", did you mean \"margin\"?");
  EXPECT_EQ(DidYouMean("zzz", names), "");
}

TEST(QuotedTest, KeepsTextOnOneLine) {
  EXPECT_EQ(Quoted("layers\\.0"), "\"layers\\.0\"");
  EXPECT_EQ(Quoted("a\"b\nc\x7f\xff\xc3\xa9"),
            "\"a\\\"b\\x0ac\\x7f\\xff\xc3\xa9\"");
}

TEST(ShortestNumberTest, ReadsBackAsTheSame) {
  EXPECT_EQ(ShortestNumber(0.1), "0.1");
  EXPECT_EQ(ShortestNumber(0.1f), "0.1");
  EXPECT_EQ(ShortestNumber(static_cast<double>(0.1f)), "0.10000000149011612");
  EXPECT_EQ(ShortestNumber(0.0), "0");
  EXPECT_EQ(ShortestNumber(149.33333f), "149.33333");
  EXPECT_EQ(ShortestNumber(-INFINITY), "-inf");
  EXPECT_EQ(ShortestNumber(std::nan("")), "nan");
}

TEST(FirstInvalidUtf8Test, FollowsTheStandard) {
  const std::string valid =
      "a\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xef\xbf\xbf\xf0\x90\x80\x80"
      "\xf4\x8f\xbf\xbf";
  EXPECT_EQ(FirstInvalidUtf8(valid), valid.size());
  for (const char* bad :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80",
        "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff",
        "\xc3", "\xe2\x82", "\xc3(", "\xf0\x90\x80("}) {
    EXPECT_EQ(FirstInvalidUtf8(std::string("ok") + bad), 2u) << bad;
  }
}

}  // namespace
}  // namespace scalekeeper
