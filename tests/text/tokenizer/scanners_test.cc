// Every scanner finds what Oniguruma finds with its pattern, on random texts.
#include "text/tokenizer/scanners.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>

#include "core/check.h"
#include "tests/text/data/scratch_folder.h"
#include "text/tokenizer/pre_tokenizer.h"
#include "text/tokenizer/unicode/regex.h"
#include "text/tokenizer/unicode/unicode.h"

namespace fm::tokenizer {
namespace {

const std::string kAnyCase = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const std::string kLines = R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
const std::string kUpperSet = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])";
const std::string kLowerSet = R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])";

const std::string kPatterns[] = {
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
    kAnyCase + R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)" + kLines,
    kAnyCase + R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)" + kLines,
    kAnyCase + R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|)" + kLines,
    kUpperSet + "*" + kLowerSet + "+" + kAnyCase + "?|" + kUpperSet + "+" + kLowerSet + "*" +
        kAnyCase + R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" + kLines,
    kUpperSet + "*" + kLowerSet + "+|" + kUpperSet + "+" + kLowerSet +
        R"(*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" + kLines,
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|)"
    R"([^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|)" +
        kLines,
    "[一-龥぀-ゟ゠-ヿ]+",
    R"(\p{N}{1,3})",
    R"(\p{N})",
};

std::vector<std::string> parts_of(const FindParts& find, std::string_view text) {
  std::vector<Match> found;
  find(text, found);
  std::vector<std::string> parts;
  for (const Match& match : found) {
    parts.push_back((match.matches ? "+" : "-") +
                    std::string(text.substr(match.begin, match.end - match.begin)));
  }
  return parts;
}

std::string random_text(std::mt19937& random) {
  constexpr char32_t kFew[] = {U'a',  U'B',  U's',  U'T',  U'\'',  U'1',    U' ',  U' ',   U'\n',
                               U'\r', U'\t', U'/',  U'.',  U'!',   0xA0,    0x301, 0x4E2D, 0x30A1,
                               0x17F, 0x1C5, 0x2B0, 0x660, 0x2028, 0x1F600, 0xE9,  0x200D, 0x1C89};
  std::string text;
  const auto size = random() % 24;
  for (unsigned long i = 0; i < size; ++i) {
    if (random() % 5 == 0) {
      const auto value = static_cast<char32_t>(1 + random() % 0x2FFFF);
      append_utf8(text, value >= 0xD800 && value < 0xE000 ? U'x' : value);
    } else {
      append_utf8(text, kFew[random() % std::size(kFew)]);
    }
  }
  return text;
}

TEST(Scanners, FindWhatOnigurumaFinds) {
  for (const std::string& pattern : kPatterns) {
    ASSERT_NE(find_scanner(pattern), nullptr) << pattern;
    const Regex regex(pattern, "f");
    const FindParts by_hand = find_by(find_scanner(pattern));
    const FindParts by_regex = [&](std::string_view text, std::vector<Match>& found) {
      regex.find_all(text, found);
    };
    std::mt19937 random(7);
    for (int round = 0; round < 4'000; ++round) {
      const std::string text = random_text(random);
      ASSERT_EQ(parts_of(by_hand, text), parts_of(by_regex, text)) << pattern << '\n' << text;
    }
  }
}

TEST(Scanners, APatternWithOtherEscapesIsTheSame) {
  const std::string raw =
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}"
      "| ?[^\\s\\p{L}\\p{N}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+";
  EXPECT_EQ(find_scanner(raw), find_scanner(kPatterns[1]));
  EXPECT_EQ(find_scanner("a+"), nullptr);
}

TEST(Regex, FindsAsTheWheelsSearchDoes) {
  const auto parts = [](const std::string& pattern, std::string_view text) {
    const Regex regex(pattern, "f");
    return parts_of(
        [&](std::string_view in, std::vector<Match>& found) { regex.find_all(in, found); }, text);
  };
  using Parts = std::vector<std::string>;
  EXPECT_EQ(parts("b*", "abba"), (Parts{"+", "-a", "+bb", "-a", "+"}));  // onig's find_iter
  EXPECT_EQ(parts("a", ""), (Parts{}));
  EXPECT_EQ(parts("\\p{N}{1,3}+", "1234567"), (Parts{"+1234567"}));  // Ruby: repeated
  EXPECT_EQ(parts("\\p{Lu}", "\u1C89"), (Parts{"+\u1C89"}));         // of Unicode 16
  const std::string said = testing::message_of<core::UserError>(11, [&] { parts("(", "a"); });
  EXPECT_NE(said.find("f: a regular expression of Oniguruma is required"), std::string::npos);
}

TEST(Regex, WidensCategoriesOnly) {
  EXPECT_EQ(with_new_characters("\\p{Han}\\d\\\\p{L"), "\\p{Han}\\d\\\\p{L");
  EXPECT_TRUE(with_new_characters("[\\p{L}x]").starts_with("[[\\p{L}\\x{"));
  EXPECT_TRUE(with_new_characters("\\P{N}").starts_with("[^\\p{N}"));
  EXPECT_TRUE(with_new_characters("\\p{^N}").starts_with("[^\\p{N}"));
}

std::string refusal(const std::string& pattern, const std::string& text = "") {
  return testing::message_of<core::UserError>(11, [&] {
    std::vector<Match> found;
    Regex(pattern, "f: pattern").find_all(text, found);
  });
}

TEST(Regex, NamesWhatAPatternDoesNotKnow) {
  const std::pair<const char*, const char*> kUnknown[] = {
      {"a\\p{Foo}", "invalid character property name {Foo}"},
      {"\\P{^Bar}", "invalid character property name {Bar}"},
      {"[^\\p{Baz}]+", "invalid character property name {Baz}"},
      {"\\k<nope>", "undefined name <nope> reference"},
      {"(?<a>x)\\g<nope>", "undefined name <nope> reference"},
      {"(?<a>x)(?<a>y)\\g<a>", "multiplex definition name <a> call"},
      {"(?<1a>x)", "invalid group name <1a>"}};
  for (const auto& [pattern, words] : kUnknown) {
    EXPECT_NE(refusal(pattern).find(words), std::string::npos) << refusal(pattern);
    EXPECT_TRUE(refusal(pattern).starts_with("f: pattern: a regular expression")) << pattern;
  }
}

// Searches without end, as far as anybody waits.
TEST(Regex, EndsWhereASearchWouldNotEnd) {
  EXPECT_EQ(refusal("(?i)" + std::string(50'000, 'a')),
            "f: pattern: a regular expression may have at most 10000 bytes; write it shorter "
            "(50004)");
  const std::string limits = "f: pattern: the pattern must match within ";
  const std::string text(40'000, 'a');
  EXPECT_TRUE(refusal("(?:a|aa)+$", text + "b").starts_with(limits));
  EXPECT_TRUE(refusal("(?:\\w+\\s?)+$", text + "-").starts_with(limits));
  EXPECT_TRUE(refusal("(a*)*$", text + "b").starts_with(limits));
}

TEST(Regex, MatchesHaveAnyLength) {
  std::string text;
  while (text.size() < 100'000) text += "\u4e2d";
  for (const char* const pattern : {"\u4e2d+", "(?:a|[^\\s]{2})+", "\\p{Han}++", "a|.*"}) {
    std::vector<Match> found;
    Regex(pattern, "f").find_all(text, found);
    ASSERT_EQ(found.size(), 1U) << pattern;
    EXPECT_EQ(found[0].end, text.size()) << pattern;
  }
}

TEST(Regex, FindsInLongTextsWhatItFindsInShortOnes) {
  std::string text;
  while (text.size() < 100'000) text += "\u00e9\u4e2d\U0001f600 ab\n";
  const Regex rare("(?<=ab\n)\\z|zz", "f");
  std::vector<Match> found;
  rare.find_all(text + "zz", found);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_TRUE(found[1].matches);
  EXPECT_EQ(found[1].begin, text.size());
  found.clear();
  Regex("\U0001f600(?= )|[a-b]+$", "f").find_all(text, found);
  const auto matches = std::ranges::count_if(found, [](const Match& one) { return one.matches; });
  EXPECT_EQ(matches, 2 * std::ranges::count(text, '\n'));
  std::size_t end = 0;
  for (const Match& match : found) EXPECT_EQ(std::exchange(end, match.end), match.begin);
  EXPECT_EQ(end, text.size());
}

}  // namespace
}  // namespace fm::tokenizer
