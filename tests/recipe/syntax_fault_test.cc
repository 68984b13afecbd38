// Texts that cannot be parsed: the exact place and words of the complaint.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "recipe/recipe.h"
#include "tests/testing/status_matchers.h"

namespace scalekeeper {
namespace {

using ::testing::HasSubstr;

struct Row {
  const char* name;
  std::string text;
  std::string message;  // after "r.textproto:"
};

class SyntaxFaultTest : public ::testing::TestWithParam<Row> {};

TEST_P(SyntaxFaultTest, IsReportedWithPlaceFieldAndWhatIsWanted) {
  EXPECT_THAT(Recipe::Parse(GetParam().text, "r.textproto"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "r.textproto:" + GetParam().message));
}

const Row kRows[] = {
    // M1: a misspelt key, at the top and inside, and a field given twice.
    {"M1MisspeltField",
     "defaults {\n  all { delayed { amax_histroy_len: 16 } }\n}\n",
     "2:19: error: defaults.all.delayed: unknown field \"amax_histroy_len\", "
     "did you mean \"amax_history_len\"?"},
    {"M1UnknownTopField", "recipes { }\n",
     "1:1: error: unknown field \"recipes\", want one of name, description, "
     "schema_version, defaults, rule, amax_reduction, matmul, phase, update"},
    {"M1FieldTwice", "name: \"a\"\nname: \"b\"\n",
     "2:1: error: name: given twice, want it once (first at 1:1)"},
    {"M1FieldTwiceInside",
     "defaults { all { delayed { margin: 1 margin: 1 } } }",
     "1:38: error: defaults.all.delayed.margin: given twice, want it once "
     "(first at 1:28)"},
    {"TwoScalings", "defaults { all { delayed {} current {} } }",
     "1:29: error: defaults.all.current: given beside delayed, want one "
     "scaling"},
    {"SecondRule",
     "rule { module: \"a\" all { delayed {} } }\n"
     "rule { module: \"b\" alll {} }",
     "2:20: error: rule[1]: unknown field \"alll\", did you mean \"all\"?"},
    {"ListOfRules",
     "rule: [{module: \"a\" all { delayed {}}}, {module: \"b\" alll {}}]",
     "1:54: error: rule[1]: unknown field \"alll\", did you mean \"all\"?"},
    {"PhaseRule",
     "phase { from_step: 1 } phase { from_step: 2\n rule { modul: \"x\" } }",
     "2:9: error: phase[1].rule[0]: unknown field \"modul\", did you mean "
     "\"module\"?"},
    // M11: values of the wrong type.
    {"M11EnumName", "defaults { all { format: hybrid delayed {} } }",
     "1:18: error: defaults.all.format: got hybrid, want E4M3, E5M2 or E2M1"},
    {"M11EnumCase", "defaults { all { format: e4m3 delayed {} } }",
     "1:18: error: defaults.all.format: got e4m3, want E4M3, E5M2 or E2M1, did "
     "you mean \"E4M3\"?"},
    {"EnumUnknownNumber", "defaults { all { format: 9 delayed {} } }",
     "1:18: error: defaults.all.format: got 9, want E4M3, E5M2 or E2M1"},
    {"EnumInQuotes", "defaults { all { format: \"E4M3\" delayed {} } }",
     "1:18: error: defaults.all.format: got \"E4M3\", want E4M3, E5M2 or E2M1, "
     "without quotes"},
    {"M11Fraction", "defaults { all { delayed { margin: 0.5 } } }",
     "1:28: error: defaults.all.delayed.margin: got 0.5, want an integer, "
     "0..32"},
    {"IntegerBeyond64Bits",
     "defaults { all { delayed { amax_history_len: 99999999999999999999 } } }",
     "1:28: error: defaults.all.delayed.amax_history_len: got "
     "99999999999999999999, want an integer, 1..65536"},
    {"WordForInteger", "defaults { all { delayed { margin: big } } }",
     "1:28: error: defaults.all.delayed.margin: got big, want an integer, "
     "0..32"},
    {"WordForBool", "defaults { all { current { power_2_scale: yes } } }",
     "1:28: error: defaults.all.current.power_2_scale: got yes, want true or "
     "false"},
    {"NumberForBool", "defaults { all { current { power_2_scale: 2 } } }",
     "1:28: error: defaults.all.current.power_2_scale: got 2, want true or "
     "false"},
    {"WordForDouble", "defaults { all { current { amax_epsilon: tiny } } }",
     "1:28: error: defaults.all.current.amax_epsilon: got tiny, want a decimal "
     "number"},
    {"WordForString", "name: abc",
     "1:1: error: name: got abc, want text in double quotes"},
    {"ScalarForMessage", "defaults: 3",
     "1:1: error: defaults: got 3, want { ... }"},
    {"MessageForScalar", "name { }",
     "1:1: error: name: got {, want text in double quotes"},
    {"NoColon", "defaults { all { delayed { margin 1 } } }",
     "1:28: error: defaults.all.delayed.margin: got 1, want \":\""},
    // Truncated and empty files.
    {"Empty", "",
     "1:1: error: got an empty file, want a recipe with defaults { ... }"},
    {"TruncatedInMessage", "defaults {\n  all { delayed { margin: 1",
     "2:28: error: defaults.all.delayed: got the end of the file, want \"}\" "
     "(opened at 2:9)"},
    {"TruncatedBeforeValue", "defaults { all { delayed { margin:",
     "1:28: error: defaults.all.delayed.margin: got the end of the file, want "
     "an integer, 0..32"},
    {"TruncatedInString", "name: \"abc",
     "1:1: error: name: got \"abc, want text that a quote ends on its line"},
    {"StringOverTwoLines", "defaults {}\nname: \"ab\nc\"",
     "2:1: error: name: got \"ab, want text that a quote ends on its line"},
    {"OneBackslashInAPattern",
     "rule { module: \"layers\\.0\" all { delayed {} } }",
     "1:8: error: rule[0].module: got \"layers\\.0\", want text with \"\\\\\" "
     "for "
     "a backslash (or an escape such as \\n, \\\", \\x41)"},
    {"EscapeWithoutDigits", "name: \"a\\xg\"",
     "1:1: error: name: got \"a\\xg\", want text with \"\\\\\" for a backslash "
     "(or an escape such as \\n, \\\", \\x41)"},
    {"HexWithoutDigits", "defaults { all { delayed { margin: 0x } } }",
     "1:28: error: defaults.all.delayed.margin: got 0x, want an integer, "
     "0..32"},
    {"NotOctal", "defaults { all { delayed { margin: 08 } } }",
     "1:28: error: defaults.all.delayed.margin: got 08, want an integer, "
     "0..32"},
    {"TwoPoints", "defaults { all { current { amax_epsilon: 1.2.3 } } }",
     "1:28: error: defaults.all.current.amax_epsilon: got 1.2.3, want a "
     "decimal number"},
    {"NumberWithUnit", "defaults { all { delayed { margin: 2bits } } }",
     "1:28: error: defaults.all.delayed.margin: got 2bits, want an integer, "
     "0..32"},
    {"HexForDouble", "defaults { all { current { amax_epsilon: 0x10 } } }",
     "1:28: error: defaults.all.current.amax_epsilon: got 0x10, want a decimal "
     "number"},
    {"ExponentWithoutDigits",
     "defaults { all { current { amax_epsilon: 1e } } }",
     "1:28: error: defaults.all.current.amax_epsilon: got 1e, want a decimal "
     "number"},
    // custom's parameters.
    {"ParameterWithoutFields",
     "defaults { all { custom { factory: \"f\" parameters { bits: 8 } } } }",
     "1:53: error: defaults.all.custom.parameters: unknown field \"bits\", "
     "want "
     "fields { key: \"bits\" value { number_value: ... } }"},
    {"ParameterOfTwoKinds",
     "defaults { all { custom { parameters { fields { key: \"a\" value { "
     "number_value: 1 bool_value: true } } } } } }",
     "1:82: error: "
     "defaults.all.custom.parameters.fields[0].value.bool_value: given beside "
     "number_value, want one of them"},
    {"NullOfAnotherName",
     "defaults { all { custom { parameters { fields { key: \"a\" value { "
     "null_value: nil } } } } } }",
     "1:66: error: "
     "defaults.all.custom.parameters.fields[0].value.null_value: got nil, want "
     "NULL_VALUE"},
    {"BraceTooMany", "name: \"a\"\n}\n",
     "2:1: error: got }, want a field name"},
    // Bytes.
    {"NulByte", std::string("name: \"a\"\nde\0fault", 18),
     "2:3: error: got byte 0x00, want UTF-8 text in protobuf text format"},
    {"NotUtf8", "name: \"\xff\"",
     "1:8: error: got byte 0xff, want UTF-8 text in protobuf text format"},
    {"Utf16",
     std::string("\xff\xfe"
                 "d\0",
                 4),
     "1:1: error: got byte 0xff, want UTF-8 text in protobuf text format"},
    {"FullWidthLetterAtTheStart", "\xef\xbd\x84",
     "1:1: error: got a character that only comments and quoted text may "
     "contain"},
    {"LetterOutsideOfString",
     "d\xc3\xa9"
     "faults {}",
     "1:2: error: got a character that only comments and quoted text may "
     "contain"},
    // Columns count bytes, whatever the tab width; CRLF is one line's end.
    {"Tabs", "\tdefaults {\n\t\tall { delayed { margins: 16 } } }\n",
     "2:19: error: defaults.all.delayed: unknown field \"margins\", did you "
     "mean \"margin\"?"},
    {"CrLf", "defaults {\r\n  all { delayed { margins: 1 } }\r\n}\r\n",
     "2:19: error: defaults.all.delayed: unknown field \"margins\", did you "
     "mean \"margin\"?"},
    {"AfterByteOrderMark",
     "\xef\xbb\xbf"
     "nam: \"a\"",
     "1:1: error: unknown field \"nam\", did you mean \"name\"?"},
    {"BraceInCommentAndString",
     "# defaults {\nname: \"a { \\\" #\" # }\ndefaults { al {} }",
     "3:12: error: defaults: unknown field \"al\", did you mean \"all\"?"},
};

INSTANTIATE_TEST_SUITE_P(Texts, SyntaxFaultTest, ::testing::ValuesIn(kRows),
                         [](const auto& info) { return info.param.name; });

TEST(SyntaxFaultLimitsTest, DeepNestingIsAnErrorNotACrash) {
  std::string text;
  for (int i = 0; i < 100000; ++i) text += "defaults { all { ";
  EXPECT_THAT(Recipe::Parse(text, "deep"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("deep:1:18: error: defaults.all: unknown "
                                 "field \"defaults\"")));
  // Only custom's parameters can be as deep as a text likes.
  text = "defaults { all { custom { parameters { ";
  for (int i = 0; i < 100000; ++i) {
    text += "fields { key: 'a' value { struct_value { ";
  }
  EXPECT_THAT(Recipe::Parse(text, "deep"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("error: got messages nested too deep, want "
                                 "fewer levels")));
  for (const char* open : {"rule: [", "rule < ", "rule { layers [", "{", "["}) {
    text.clear();
    for (int i = 0; i < 100000; ++i) text += open;
    EXPECT_THAT(
        Recipe::Parse(text, "deep"),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("deep:1:")));
  }
}

TEST(SyntaxFaultLimitsTest, AHugeTextIsRefused) {
  const std::string text(50'000'000, ' ');
  EXPECT_THAT(Recipe::Parse(text, "huge"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "huge:1:1: error: got a file of more than 4194304 "
                       "bytes, want a recipe"));
}

}  // namespace
}  // namespace scalekeeper
