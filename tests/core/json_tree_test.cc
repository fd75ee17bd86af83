// The one reader of JSON: as a tree, and as events.
#include "core/json_tree.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "core/check.h"

namespace fm::core {
namespace {

std::string nested(std::size_t brackets) {
  return std::string(brackets, '[') + std::string(brackets, ']');
}

// What parse_json says of a text that it refuses; "" otherwise.
std::string refusal(std::string_view text) {
  try {
    parse_json(text, "f.json");
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::kDataError);
    return error.what();
  }
  return "";
}

template <class Read>
std::string refused(const Read& read) {
  try {
    read();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

// Draws what it meets: "[2 <a>]" with the depth behind '@'.
class Drawer final : public JsonVisitor {
 public:
  bool scalar(JsonScalar& value) override {
    switch (value.kind) {
      case JsonKind::kNull: return put("null");
      case JsonKind::kBool: return put(value.boolean ? "true" : "false");
      case JsonKind::kString: return put("<" + *value.text + ">");
      case JsonKind::kNumber:
      case JsonKind::kArray:
      case JsonKind::kObject: break;
    }
    return put(value.is_integer ? std::to_string(value.integer) : "~" + std::string(value.digits));
  }
  bool open(JsonKind kind) override { return put(kind == JsonKind::kArray ? "[" : "{"); }
  bool close() override { return put("end"); }
  bool key(std::string& name) override {
    return name == "stop" ? refuse("stop is met") : put(name + ":");
  }

  std::string drawn;

 private:
  bool put(const std::string& what) {
    drawn += (drawn.empty() ? "" : " ") + what + "@" + std::to_string(depth());
    return true;
  }
};

TEST(ReadJson, TellsTheDepthOfWhatItMeets) {
  Drawer drawer;
  EXPECT_FALSE(read_json(R"({"a": [1, {"b": null}, true], "c": "d"})", drawer));
  EXPECT_EQ(drawer.drawn, "{@0 a:@1 [@1 1@2 {@2 b:@3 null@3 end@2 true@2 end@1 c:@1 <d>@1 end@0");
}

TEST(ReadJson, ExactIntegersEndWhereInt64Ends) {
  Drawer drawer;
  EXPECT_FALSE(
      read_json("[9223372036854775807, 9223372036854775808, -9223372036854775808, "
                "-9223372036854775809, 18446744073709551616, 1.50, 1e2]",
                drawer));
  EXPECT_EQ(drawer.drawn,
            "[@0 9223372036854775807@1 ~9223372036854775808@1 -9223372036854775808@1 "
            "~-9223372036854775809@1 ~18446744073709551616@1 ~1.50@1 ~1e2@1 end@0");
}

TEST(ReadJson, AVisitorEndsTheReading) {
  Drawer drawer;
  const auto problem = read_json(R"({"a": 1, "stop": [no JSON)", drawer);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->byte, 0U);
  EXPECT_EQ(problem->reason, "stop is met");
  EXPECT_EQ(drawer.drawn, "{@0 a:@1 1@1");
}

TEST(ReadJson, NamesTheByteAndThePlaceOfWhatIsNoJson) {
  Drawer drawer;
  const auto problem = read_json("[1,\n 2,]", drawer);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->byte, 8U);
  EXPECT_TRUE(problem->reason.starts_with("parse error at line 2, column 4: syntax error"))
      << problem->reason;
}

class Deepest final : public JsonVisitor {
 public:
  bool scalar(JsonScalar&) override { return true; }
  bool open(JsonKind) override { return deepest = std::max(deepest, depth() + 1), true; }
  bool close() override { return true; }
  bool key(std::string&) override { return true; }
  std::size_t deepest = 0;
};

// 8 MB of stack hold no 100,000 frames of a parser with some state.
TEST(ReadJson, DepthTakesNoStack) {
  Deepest deepest;
  EXPECT_FALSE(read_json(nested(100'000), deepest));
  EXPECT_EQ(deepest.deepest, 100'000U);
}

TEST(JsonScalar, UnsignedIntegersEndWhereUint64Ends) {
  const auto taken = [](std::string_view number) {
    struct Taker final : JsonVisitor {
      bool scalar(JsonScalar& value) override { return found = value.unsigned_integer(), true; }
      bool open(JsonKind) override { return true; }
      bool close() override { return true; }
      bool key(std::string&) override { return true; }
      std::optional<std::uint64_t> found;
    } taker;
    EXPECT_FALSE(read_json(number, taker)) << number;
    return taker.found;
  };
  EXPECT_EQ(taken("0"), 0U);
  EXPECT_EQ(taken("9223372036854775807"), 9223372036854775807U);
  EXPECT_EQ(taken("18446744073709551615"), 18446744073709551615U);
  for (const char* other : {"-1", "18446744073709551616", "1.0", "1e3", "-9223372036854775809",
                            "[1.5, -1]", "-0", "true", "\"1\"", "null"}) {
    EXPECT_EQ(taken(other), std::nullopt) << other;
  }
}

TEST(JsonTree, KeepsOrderPlacesAndDigits) {
  const JsonTree root = parse_json(R"({"b": [1.50, {"c": true}], "a": {"d": "x"}})", "f.json");
  EXPECT_EQ(root.where, "f.json");
  ASSERT_EQ(root.object().size(), 2U);
  EXPECT_EQ(root.members[0].key, "b");
  const JsonTree& list = root.at("b");
  EXPECT_EQ(list.array()[0].text, "1.50");
  EXPECT_EQ(list.array()[0].real(), 1.5);
  EXPECT_EQ(list.array()[1].at("c").where, "f.json: b[1].c");
  EXPECT_EQ(root.at("a").at("d").where, "f.json: a.d");
  EXPECT_EQ(root.at("a").at("d").string(), "x");
}

// As in Python, serde and the library: what all our readers of plain JSON promise. HJSON and
// headers of weights refuse them (hjson_test.cc, safetensors_test.cc).
TEST(JsonTree, OfEqualKeysTheLastCountsAndAllAreThere) {
  const JsonTree root = parse_json(R"({"a": 1, "b": 2, "a": 3})", "f");
  EXPECT_EQ(root.members.size(), 3U);
  EXPECT_EQ(root.at("a").whole(), 3);
}

TEST(JsonTree, NullIsAbsentWhereAKeyIsAskedFor) {
  const JsonTree root = parse_json(R"({"a": null, "n": 1, "f": true, "s": "x"})", "f");
  EXPECT_EQ(root.find("a"), nullptr);
  ASSERT_NE(root.member("a"), nullptr);
  EXPECT_EQ(root.member("a")->kind, JsonKind::kNull);
  EXPECT_EQ(root.member("z"), nullptr);
  EXPECT_EQ(root.at("n").member("z"), nullptr);
  EXPECT_EQ(root.string_or("s", "y"), "x");
  EXPECT_EQ(root.string_or("a", "y"), "y");
  EXPECT_TRUE(root.flag_or("f", false));
  EXPECT_FALSE(root.flag_or("a", false));
  EXPECT_EQ(refused([&] { root.at("a"); }), "f: key \"a\" is required; correct the file");
}

TEST(JsonTree, AnotherKindIsRefusedWithItsPlace) {
  const JsonTree root = parse_json(R"({"a": [{"b": 1.5}]})", "f");
  const JsonTree& number = root.at("a").array()[0].at("b");
  EXPECT_EQ(refused([&] { number.string(); }),
            "f: a[0].b: a string is required here; correct the file");
  EXPECT_EQ(refused([&] { number.flag(); }),
            "f: a[0].b: true or false is required; correct the file");
  EXPECT_EQ(refused([&] { number.find("c"); }),
            "f: a[0].b: an object is required here; correct the file");
  EXPECT_EQ(refused([&] { number.whole(); }),
            "f: a[0].b: a whole number is required here; correct the file (1.5)");
  EXPECT_EQ(refused([&] { number.count(9); }),
            "f: a[0].b: an integer from 0 to 9 is required; correct the file (1.5)");
}

TEST(JsonTree, CountsAreWrittenAsIntegers) {
  EXPECT_EQ(parse_json("9", "f").count(9), 9);
  EXPECT_EQ(parse_json("9.0", "f").whole(), 9);
  for (const char* other : {"9.0", "1e0", "10", "-1", "99999999999999999999", "true", "\"9\""}) {
    EXPECT_NE(refused([&] { parse_json(other, "f").count(9); }), "") << other;
  }
}

TEST(JsonTree, WhatIsNoJsonIsRefusedWithItsByte) {
  const std::string begin = "f.json: one JSON value is required; correct the file (byte ";
  EXPECT_TRUE(refusal("").starts_with(begin + "1: "));
  EXPECT_TRUE(refusal(" \n").starts_with(begin + "3: "));
  EXPECT_TRUE(refusal("{} x").starts_with(begin + "4: "));
  EXPECT_TRUE(refusal("[1,]").starts_with(begin + "4: "));
  EXPECT_TRUE(refusal("\"caf\xE9\"").starts_with(begin + "6: "));  // Latin-1
  EXPECT_TRUE(refusal("\"\\ud800\"").starts_with(begin + "8: "));  // half a pair
  EXPECT_TRUE(refusal("\"a\nb\"").starts_with(begin + "3: "));     // a control character
  EXPECT_TRUE(refusal("[NaN]").starts_with(begin + "2: "));
  EXPECT_TRUE(refusal("[1e400]").starts_with(begin));
  EXPECT_EQ(parse_json("\xEF\xBB\xBF\"a\\u0000b\"", "f").string(), std::string("a\0b", 3));
}

TEST(JsonTree, SixtyFourLevelsAreRead) {
  EXPECT_EQ(refusal(nested(64)), "");
  EXPECT_EQ(refusal(nested(65)), "f.json: at most 64 levels of JSON are read; correct the file");
  EXPECT_NE(refusal(nested(100'000)), "");
  EXPECT_NE(refusal(std::string(100'000, '[')), "");
}

nlohmann::json as_dom(const JsonTree& value) {
  nlohmann::json dom;
  switch (value.kind) {
    case JsonKind::kNull: break;
    case JsonKind::kBool: dom = value.boolean; break;
    case JsonKind::kNumber: dom = value.number; break;
    case JsonKind::kString: dom = value.text; break;
    case JsonKind::kArray:
      dom = nlohmann::json::array();
      for (const JsonTree& item : value.items) dom.push_back(as_dom(item));
      break;
    case JsonKind::kObject:
      dom = nlohmann::json::object();
      for (const auto& [key, member] : value.members) dom[key] = as_dom(member);
      break;
  }
  return dom;
}

// The library's own tree is the second reader: it takes the same texts, and finds the same values.
TEST(JsonTree, AgreesWithASecondReaderOnThousandsOfDamagedTexts) {
  const std::string seed =
      R"({"a": [1, -2.5e3, true, null, 18446744073709551615], "b": {"c": "x\n\u00e9\ud83d\ude00"},)"
      R"( "a": [[], {}, "\"\\"], "d": 1e-7})";
  const std::string letters = "{}[]\":,\\untxe01 \n-.\xC3\xFF";
  std::mt19937 random(20240607);
  int accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text = seed;
    for (auto left = 1 + random() % 3; left > 0; --left) {
      const std::size_t at = random() % text.size();
      const char letter = letters[random() % letters.size()];
      switch (random() % 3) {
        case 0: text[at] = letter; break;
        case 1: text.insert(at, 1, letter); break;
        default: text.erase(at, 1 + random() % 3); break;  // the third
      }
    }
    const nlohmann::json dom = nlohmann::json::parse(text, nullptr, false);
    ASSERT_EQ(refusal(text).empty(), !dom.is_discarded()) << text;
    if (dom.is_discarded()) continue;
    ++accepted;
    ASSERT_EQ(as_dom(parse_json(text, "f")), dom) << text;
  }
  EXPECT_GT(accepted, 500);
}

}  // namespace
}  // namespace fm::core
