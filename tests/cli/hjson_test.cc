// Golden cases from hjson-py (the reader DeepSpeed uses) and its syntax page.
#include "cli/deepspeed/hjson.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <thread>

#include "tests/cli/expect_refusal.h"

namespace fm::cli {
namespace {

// One line of JSON with sorted nothing: what was read, for comparison with a picture.
std::string picture(const JsonTree& value) {
  if (value.kind == JsonKind::kArray) {
    std::string out = "[";
    for (const JsonTree& item : value.items) out += (out.size() > 1 ? " " : "") + picture(item);
    return out + "]";
  }
  if (value.kind == JsonKind::kObject) {
    std::string out = "{";
    for (const auto& [key, member] : value.members) {
      out += (out.size() > 1 ? " " : "") + key + ":" + picture(member);
    }
    return out + "}";
  }
  return value.kind == JsonKind::kString ? "<" + value.text + ">" : show(value);
}

std::string read(std::string_view text) { return picture(parse_hjson(text, "t.json")); }

std::string refusal(std::string_view text) {
  return refusal_of([&] { parse_hjson(text, "t.json"); });
}

TEST(Hjson, ReadsStrictJson) {
  EXPECT_EQ(read(R"({"a": [1, -2.5e3, true, null], "b": {"c": "x\n\u00e9\ud83d\ude00"}})"),
            "{a:[1 -2.5e3 true null] b:{c:<x\n\xC3\xA9\xF0\x9F\x98\x80>}}");
}

// U+20AC is E2 82 AC, U+FFFD is EF BF BD (the Unicode Standard, table 3-6).
TEST(Hjson, EscapesBecomeUtf8OfEveryLength) {
  EXPECT_EQ(read(R"({"a": "\u0041\u00df\u20ac\ufffd\ud800\udc00\udbff\udfff"})"),
            "{a:<A\xC3\x9F\xE2\x82\xAC\xEF\xBF\xBD\xF0\x90\x80\x80\xF4\x8F\xBF\xBF>}");
}

TEST(Hjson, HalfASurrogatePairIsRefused) {
  for (const char* const half : {"\\ud800", "\\udbffx", "\\udc00", "\\udfff", "\\ud800\\u0041",
                                 "\\ud800\\ud800", "\\ud800\\n"}) {
    EXPECT_TRUE(holds(refusal(core::concat("{\"a\": \"", half, "\"}")), "must come in pairs"))
        << half;
  }
}

// hjson-py 3.1: "Invalid control character" below U+0020; in ''' and without quotes they may stand.
TEST(Hjson, AControlCharacterInsideQuotesMustBeEscaped) {
  EXPECT_TRUE(holds(refusal("{\n\"a\": \"x\ty\"}"), "no control character; write \\t (t.json:2)"));
  EXPECT_TRUE(holds(refusal("{'a\tb': 1}"), "write \\t"));
  for (const char control : {'\0', '\1', '\f', '\r', '\x1f'}) {
    EXPECT_TRUE(holds(refusal(std::string("{\"a\": \"x") + control + "y\"}"), "write \\u00"))
        << static_cast<int>(control);
  }
  EXPECT_EQ(read("{\"a\": \"x\x7fy\", b: '''x\ty''', c:\tx\ty\n}"),
            "{a:<x\x7fy> b:<x\ty> c:<x\ty>}");
}

TEST(Hjson, SkipsThreeKindsOfComments) {
  EXPECT_EQ(read("# one\n{ // two\n \"a\": 1 /* three\n lines */ , # four\n \"b\": 2}\n// end"),
            "{a:1 b:2}");
}

TEST(Hjson, ToleratesTrailingAndMissingCommas) {
  EXPECT_EQ(read("{\"a\": [1, 2,], \"b\": 3,}"), "{a:[1 2] b:3}");
  EXPECT_EQ(read("{\n a: 1\n b: [\n 1\n 2\n ]\n c: 3\n}"), "{a:1 b:[1 2] c:3}");
}

TEST(Hjson, ReadsKeysAndTextsWithoutQuotesToTheEndOfTheLine) {
  EXPECT_EQ(read("{\n type: AdamW, the best # really\n n: 5e8, m: true # yes\n}"),
            "{type:<AdamW, the best # really> n:5e8 m:true}");
}

TEST(Hjson, RootBracesMayBeLeftOut) { EXPECT_EQ(read("a: 1\nb: {c: 2}"), "{a:1 b:{c:2}}"); }

TEST(Hjson, NumbersThatJsonDoesNotKnowAreTexts) {
  EXPECT_EQ(read("{\na: 007\nb: 1.\nc: .5\nd: +1\ne: -0\n}"),
            "{a:<007> b:<1.> c:<.5> d:<+1> e:-0}");
}

TEST(Hjson, MultilineTextLosesItsIndentation) {
  EXPECT_EQ(read("{\n  a: '''\n     one\n       two\n     '''\n}"), "{a:<one\n  two>}");
}

TEST(Hjson, SingleQuotesAndByteOrderMark) { EXPECT_EQ(read("\xEF\xBB\xBF{'a': 'b'}"), "{a:<b>}"); }

TEST(Hjson, EveryValueKnowsTheLineOfItsKey) {
  const JsonTree root = parse_hjson("{\n\"a\": 1,\n\"b\":\n {\n\"c\": 2}}", "t.json");
  EXPECT_EQ(root.member("a")->line, 2);
  EXPECT_EQ(root.member("b")->line, 3);
  EXPECT_EQ(root.member("b")->member("c")->line, 5);
}

TEST(Hjson, DuplicateKeysAreRefusedAtEveryLevelWithBothLines) {
  EXPECT_EQ(refusal("{\n\"a\": 1,\n\"b\": 2,\n\"a\": 3\n}"),
            "Duplicate keys in DeepSpeed config: ['a']; keep one of each (t.json:4, first on line "
            "2)");
  EXPECT_TRUE(holds(refusal("{\"z\": [{\"stage\": 1,\n\"stage\": 2}]}"), "['stage']"));
  EXPECT_TRUE(holds(refusal("{a: 1, b: 2, a: 3, b: 4, a: 5}"), "config: ['a', 'b'];"));
}

TEST(Hjson, ErrorsNameFileAndLine) {
  EXPECT_TRUE(holds(refusal("{\n\"a\": 1,\n\"b\"  2}"), "t.json:3"));
  EXPECT_TRUE(holds(refusal("{\n\"a\": [1, 2\n"), "the list that starts on line 2"));
  EXPECT_TRUE(holds(refusal("{\n\"a\": {\"b\": 1}\n"), "the object that starts on line 1"));
  EXPECT_TRUE(holds(refusal("{\"a\": \"b\n\"}"), "must end on its line"));
  EXPECT_TRUE(holds(refusal("{\"a\": \"\\x\"}"), "found \\x"));
  EXPECT_TRUE(holds(refusal("{\"a\": \"\\u12g4\"}"), "four hexadecimal digits"));
  EXPECT_TRUE(holds(refusal("{my key: 1}"), "must not hold spaces"));
  EXPECT_TRUE(holds(refusal("{[: 1}"), "a key name is required where '['"));
  EXPECT_TRUE(holds(refusal("{a: }"), "a value is required where '}'"));
  EXPECT_TRUE(holds(refusal("{a: 1} b"), "must end after its object"));
  EXPECT_TRUE(holds(refusal("{/* never closed"), "closed by */"));
  EXPECT_TRUE(holds(refusal("{a: '''x"), "closed by '''"));
  EXPECT_TRUE(holds(refusal("{a: "), "a value is missing"));
}

// The text runs to the end of the line and takes the brace along.
TEST(Hjson, ATextWithoutQuotesThatSwallowedTheBraceIsNamed) {
  EXPECT_TRUE(
      holds(refusal("{\"gradient_clipping\": NaN, \"x\": 1}"),
            "(the text without quotes on line 1 runs to its end: NaN, \"x\": 1}; quote it)"));
  EXPECT_TRUE(holds(refusal("{\n\"a\": {\"b\": 1e400}}\n"), "on line 2 runs to its end: 1e400}}"));
  EXPECT_TRUE(holds(refusal("{type: AdamW}"), "runs to its end: AdamW}; quote it"));
  EXPECT_TRUE(holds(refusal("{\"a\": [one, two]\n}"), "runs to its end: one, two]; quote it"));
  EXPECT_EQ(refusal("{\ntype: AdamW\n").find("quote it"), std::string::npos);
  EXPECT_TRUE(holds(refusal("{a: b" + std::string(100'000, '}')), "}...; quote it"));
}

// The object is the first of 64.
TEST(Hjson, SixtyFourLevelsAreRead) {
  const auto nested = [](std::size_t lists) {
    return "{a: " + std::string(lists, '[') + std::string(lists, ']') + "}";
  };
  EXPECT_EQ(read(nested(63)), "{a:" + std::string(63, '[') + std::string(63, ']') + "}");
  EXPECT_TRUE(holds(refusal(nested(64)), "64 deep"));
}

TEST(Hjson, DeepNestingIsRefusedNotCrashed) {
  EXPECT_TRUE(holds(refusal("{a: " + std::string(100'000, '[')), "64 deep"));
}

TEST(Hjson, EveryPrefixOfAConfigurationIsReadOrRefused) {
  const std::string text =
      "{ # x\n \"a\": [1, {\"b\": \"\\u00e9\"}], c: '''\n t\n ''', /* y */ d: word, \n e: 5e8 }";
  for (std::size_t length = 0; length < text.size(); ++length) {
    refusal(text.substr(0, length));  // anything but a UserError fails the test
  }
}

TEST(ConfigText, ComesFromAFileOrBase64OrTheWordItself) {
  const std::string path = ::testing::TempDir() + "config_text.json";
  std::ofstream(path) << "{\"a\": 1}";
  EXPECT_EQ(load_config_text(path).text, "{\"a\": 1}");
  EXPECT_EQ(load_config_text(path).name, path);
  // python3: base64.urlsafe_b64encode(b'{"a": "?>"}')
  EXPECT_EQ(load_config_text("eyJhIjogIj8-In0=").text, "{\"a\": \"?>\"}");
  EXPECT_EQ(load_config_text("eyJhIjogIj8-In0").text, "{\"a\": \"?>\"}");
  EXPECT_EQ(load_config_text(" {\"a\": 2}").text, " {\"a\": 2}");
}

// What a shell makes of <(jq ...).
TEST(ConfigText, MayComeThroughAPipe) {
  const std::string path = ::testing::TempDir() + "config_text.fifo";
  std::remove(path.c_str());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(path) << "{\"a\": 3}"; });
  const std::string said =
      refusal_of([&] { EXPECT_EQ(load_config_text(path).text, "{\"a\": 3}"); });
  const int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK);  // whom else the writer waits for
  writer.join();
  close(reader);
  EXPECT_EQ(said, "accepted");
}

TEST(ConfigText, AFileWithoutAnEndIsRefusedWithTheLimit) {
  EXPECT_EQ(refusal_of([] { load_config_text("/dev/zero"); }),
            "the DeepSpeed configuration must be a readable file; check the path (/dev/zero: it "
            "does not end after 16.0 MB)");
}

TEST(ConfigText, AFolderIsNoConfiguration) {
  const std::string said = refusal_of([] { load_config_text(::testing::TempDir()); });
  EXPECT_TRUE(holds(said, "must be the path of an existing file"));
}

TEST(ConfigText, ALongMistakeIsNotRepeatedWhole) {
  const std::string said = refusal_of([] { load_config_text(std::string(100'000, '!')); });
  EXPECT_TRUE(holds(said, std::string(200, '!') + "...)"));
}

TEST(ConfigText, AMissingFileIsNamed) {
  const std::string said = refusal_of([] { load_config_text("no/such/file.json"); });
  EXPECT_TRUE(holds(said, "(received: no/such/file.json)"));
}

}  // namespace
}  // namespace fm::cli
