// Reading JSON; writing it is in jinja_cases_test.cc, by the filter tojson.
#include "chat/json_text.h"

#include <gtest/gtest.h>

#include "tests/data/scratch_folder.h"

namespace fm::chat {
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

TEST(ParseJson, RefusesWhatItCannotKeep) {
  EXPECT_EQ(refusal("[1,]"), "f:3: JSON is required; correct the JSON at byte 4");
  EXPECT_EQ(refusal(""), "f:3: JSON is required; correct the JSON at byte 1");
  for (const char* text : {"\"\xFF\"", "\"caf\xe9\"", "\xff\xfe{"}) {  // none, Latin-1, UTF-16
    EXPECT_TRUE(refusal(text).starts_with(
        "f:3: JSON must be UTF-8; convert the file, as iconv -f LATIN1 -t UTF-8 does ("));
  }
  const std::string large =
      "f:3: JSON is required; integers must have at most 64 bits with their sign";
  EXPECT_EQ(refusal("9223372036854775808"), large);
  EXPECT_EQ(refusal("[1, 100000000000000000000]"), large);
  EXPECT_EQ(refusal(std::string(300, '[') + std::string(300, ']')),
            "f:3: JSON is required; lists and dicts may nest 200 deep");
}

}  // namespace
}  // namespace fm::chat
