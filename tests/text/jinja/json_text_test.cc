// Reading JSON; writing it is in jinja_cases_test.cc, by the filter tojson.
#include "text/jinja/json_text.h"

#include <gtest/gtest.h>

#include "tests/text/data/scratch_folder.h"

namespace fm::jinja {
namespace {

std::string refusal(const std::string& text) {
  return testing::message_of<core::UserError>(11, [&] { parse_json(text, "f:3"); });
}

// As Python's json: order of insertion, the last of equal keys at the place of the first.
TEST(ParseJson, KeepsOrderAndTheLastOfEqualKeys) {
  EXPECT_EQ(to_json(parse_json(R"({"b": 1, "a": [true, null, "\u00e9\n"], "b": 2.50})", "f"), {}),
            R"({"b": 2.5, "a": [true, null, "é\n"]})");
}

// Looking at all entries for each would take minutes.
TEST(ParseJson, ReadsAnObjectOfVeryManyKeys) {
  std::string text = "{";
  for (int at = 0; at < 40'000; ++at) {
    text += "\"key" + std::to_string(at % 30'000) + "\":" + std::to_string(at) + ",";
  }
  text.back() = '}';
  const Value value = parse_json(text, "f");
  const Entries& entries = value.dict()->entries;
  ASSERT_EQ(entries.size(), 30'000U);
  EXPECT_EQ(entries[7].first, "key7");
  EXPECT_EQ(*entries[7].second.get<std::int64_t>(), 30'007);
  EXPECT_EQ(*entries[29'999].second.get<std::int64_t>(), 29'999);
}

TEST(ParseJson, TellsIntegersFromFloats) {
  EXPECT_EQ(to_text(parse_json("[1, 1.0, -9223372036854775808, 1e3]", "f")),
            "[1, 1.0, -9223372036854775808, 1000.0]");
}

// Python's integers have no end. Templates print and compare them.
TEST(ParseJson, KeepsLargeIntegersExactly) {
  const std::string text =
      "[9223372036854775808, 18446744073709551615, -9223372036854775809, 100000000000000000000]";
  EXPECT_EQ(to_text(parse_json(text, "f")), text);
  EXPECT_EQ(to_json(parse_json(text, "f"), {}), text);
  EXPECT_EQ(to_text(parse_json("[-0, 1e300, 9223372036854775807]", "f")),
            "[0, 1e+300, 9223372036854775807]");
  EXPECT_EQ(to_text(parse_json("18446744073709551615", "f", LargeIntegers::kFloats)),
            "1.8446744073709552e+19");
  const Value large = parse_json("18446744073709551615", "f");
  EXPECT_TRUE(equal(large, parse_json("18446744073709551615", "f")));
  EXPECT_FALSE(equal(large, parse_json("18446744073709551614", "f")));
  EXPECT_TRUE(truthy(large));
  EXPECT_EQ(kind_name(large), "an integer of more than 64 bits");
  EXPECT_THROW(less(large, large), Failure);
}

TEST(ParseJson, RefusesWhatItCannotKeep) {
  EXPECT_EQ(refusal("[1,]"), "f:3: JSON is required; correct the JSON at byte 4");
  EXPECT_EQ(refusal(""), "f:3: JSON is required; correct the JSON at byte 1");
  for (const char* text : {"\"\xFF\"", "\"caf\xe9\"", "\xff\xfe{"}) {  // none, Latin-1, UTF-16
    EXPECT_TRUE(refusal(text).starts_with(
        "f:3: JSON must be UTF-8; convert the file, as iconv -f LATIN1 -t UTF-8 does ("));
  }
  EXPECT_EQ(refusal(std::string(300, '[') + std::string(300, ']')),
            "f:3: JSON is required; lists and dicts may nest 200 deep");
}

}  // namespace
}  // namespace fm::jinja
