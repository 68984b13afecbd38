// JSON objects <-> parameters of custom quantizers.
#include "recipe/parameters.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/recipe/spec_generator.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

TEST(ParametersTest, TextsBecomeCanonical) {
  const struct {
    const char* json;
    const char* canonical;
  } rows[] = {
      {"{}", "{}"},
      {" {\n} \t", "{}"},
      {R"({"b": 2, "a": 1.50e1})", R"({"a":15,"b":2})"},
      {R"({"x": [1, true, false, null, "t", [], {}]})",
       R"({"x":[1,true,false,null,"t",[],{}]})"},
      {R"({"": -0.5, "n": 1E-7})", R"({"":-0.5,"n":1e-07})"},
      {R"({"\"\\\/\b\f\n\r\t": "\u0041\u00e9\u20AC\ud83d\uDE00"})",
       "{\"\\\"\\\\/\\u0008\\u000c\\u000a\\u000d\\u0009\":"
       "\"A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"}"},
  };
  for (const auto& row : rows) {
    const absl::StatusOr<Parameters> parameters = ParseParameters(row.json);
    ASSERT_THAT(parameters, IsOk()) << row.json;
    EXPECT_EQ(CanonicalJson(*parameters), row.canonical);
  }
}

TEST(ParametersTest, ValuesAreTyped) {
  const absl::StatusOr<Parameters> p =
      ParseParameters(R"({"bits": 8, "signed": true, "of": {"k": ["v"]}})");
  ASSERT_THAT(p, IsOk());
  EXPECT_EQ(std::get<double>(p->at("bits").value), 8);
  EXPECT_EQ(std::get<bool>(p->at("signed").value), true);
  const auto& of = std::get<Parameters>(p->at("of").value);
  const auto& k = std::get<ParameterList>(of.at("k").value);
  EXPECT_EQ(std::get<std::string>(k.at(0).value), "v");
}

TEST(ParametersTest, OtherTextsAreRefusedWithTheirPlace) {
  const struct {
    std::string json;
    const char* message;
  } rows[] = {
      {"", "offset 0: got the end, want \"{\""},
      {"[]", "offset 0: got '[', want \"{\""},
      {"{} x", "offset 3: got 'x', want the end"},
      {"{bits: 8}", "offset 1: got 'b', want a name in double quotes"},
      {R"({"a" 1})", "offset 5: got '1', want \":\""},
      {R"({"a":1 "b":2})", "offset 7: got '\"', want \",\" or \"}\""},
      {R"({"a":[1 2]})", "offset 8: got '2', want \",\" or \"]\""},
      {R"({"a":1,})", "offset 7: got '}', want a name in double quotes"},
      {R"({"a":1,"a":2})", "offset 7: got '\"', want each name once"},
      {R"({"a":"b)", "offset 7: got the end, want text that a double quote"},
      {"{\"a\":\"b\n\"}", "offset 7: got '\n', want text that a double quote"},
      {R"({"a":"\q"})", "offset 7: got 'q', want an escape of JSON"},
      {R"({"a":"\u12g4"})", "offset 7: got 'u', want four hexadecimal digits"},
      {R"({"a":"\ud800"})", "offset 7: got 'u', want no half of a surrogate"},
      {R"({"a":"\ud800\u0041"})", "want no half of a surrogate"},
      {"{\"a\":\"\xff\"}", "offset 6: got '\xff', want UTF-8 text"},
      {R"({"a":01})", "offset 5: got '0', want a value"},
      {R"({"a":+1})", "offset 5: got '+', want a value"},
      {R"({"a":1.})", "offset 5: got '1', want a value"},
      {R"({"a":.5})", "offset 5: got '.', want a value"},
      {R"({"a":1e})", "offset 5: got '1', want a value"},
      {R"({"a":1e999})", "offset 5: got '1', want a value"},
      {R"({"a":NaN})", "offset 5: got 'N', want a value"},
      {R"({"a":)", "offset 5: got the end, want a value"},
      {R"({"a":)" + std::string(100000, '['), "offset 20: got '[', want less"},
  };
  for (const auto& row : rows) {
    EXPECT_THAT(ParseParameters(row.json),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         ::testing::HasSubstr(row.message)))
        << row.json;
  }
}

TEST(ParametersTest, GeneratedOnesSurviveTheRoundTrip) {
  SpecGenerator generator(7);
  int seen = 0;
  for (int i = 0; i < 300; ++i) {
    const RecipeSpec spec = generator.Next();
    const auto* custom = std::get_if<CustomSpec>(&spec.defaults->all->scaling);
    if (custom == nullptr || !custom->parameters) continue;
    const std::string json = CanonicalJson(*custom->parameters);
    const absl::StatusOr<Parameters> read = ParseParameters(json);
    ASSERT_THAT(read, IsOk()) << json;
    EXPECT_EQ(CanonicalJson(*read), json);
    ++seen;
  }
  EXPECT_GT(seen, 5);
}

}  // namespace
}  // namespace scalekeeper
