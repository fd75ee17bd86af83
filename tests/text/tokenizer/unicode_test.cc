// UTF-8, classes of characters and normal forms.
#include "text/tokenizer/unicode/unicode.h"

#include <gtest/gtest.h>

#include "text/tokenizer/unicode/charsmap.h"
#include "text/tokenizer/unicode/normal_forms.h"

namespace fm::tokenizer {
namespace {

// What CPython 3.11 prints for bytes.decode("utf-8", "replace").
TEST(Utf8, PartsOfCharactersBecomeReplacementsAsInPython) {
  const std::string bad = std::string(kReplacement);
  EXPECT_EQ(replace_invalid_utf8("a\xC3\xA9z"), "a\xC3\xA9z");
  EXPECT_EQ(replace_invalid_utf8("a\xFF"), "a" + bad);
  EXPECT_EQ(replace_invalid_utf8("\xE2\x82"
                                 "A"),
            bad + "A");                                                        // cut: one
  EXPECT_EQ(replace_invalid_utf8("\xF0\x9F\x98"), bad);                        // cut at the end
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80"), bad + bad + bad);            // a surrogate
  EXPECT_EQ(replace_invalid_utf8("\xC0\xAF"), bad + bad);                      // overlong
  EXPECT_EQ(replace_invalid_utf8("\xF4\x90\x80\x80"), bad + bad + bad + bad);  // above U+10FFFF
  EXPECT_EQ(replace_invalid_utf8("\x80\x80"), bad + bad);
  EXPECT_EQ(replace_invalid_utf8("\xE0\x80\xAF"), bad + bad + bad);
}

TEST(Utf8, EveryCodePointIsReadAsItWasWritten) {
  for (char32_t value = 0; value < kCodePoints; ++value) {
    if (value >= 0xD800 && value < 0xE000) continue;
    std::string text = "x";
    append_utf8(text, value);
    ASSERT_EQ(valid_utf8(text), text.size()) << std::hex << static_cast<unsigned>(value);
    ASSERT_EQ(code_point_at(text, 1).value, value);
    ASSERT_EQ(code_point_before(text, text.size()).value, value);
    ASSERT_EQ(code_point_at(text, 1).size, text.size() - 1);
  }
}

TEST(CharClasses, KnowLettersOfUnicode16) {
  const std::vector<std::uint8_t>& classes = char_classes();
  EXPECT_EQ(classes[U'a'], kLower);
  EXPECT_EQ(classes[U'A'], kUpper);
  EXPECT_EQ(classes[0x4E2D], kOtherLetter);
  EXPECT_EQ(classes[0x301], kMark);
  EXPECT_EQ(classes[0x2155], kNumber);
  EXPECT_EQ(classes[0x3000], kSpace);
  EXPECT_EQ(classes[0x1C89], kUpper);      // CYRILLIC CAPITAL LETTER TJE, of Unicode 16
  EXPECT_EQ(classes[0x1CCF0], kNumber);    // OUTLINED DIGIT ZERO, of Unicode 16
  EXPECT_EQ(classes[0x200B] & kSpace, 0);  // ZERO WIDTH SPACE is no White_Space
  EXPECT_EQ(classes[0x180E] & kSpace, 0);  // nor is MONGOLIAN VOWEL SEPARATOR
}

std::string in_form(UnicodeForm form, std::string_view text) {
  std::string made;
  return normal_form(form).apply(text, made) ? made : std::string(text);
}

// Rows of Unicode's NormalizationTest.txt.
TEST(NormalForms, EqualPublishedRows) {
  EXPECT_EQ(in_form(UnicodeForm::kNfc, "\u1E0A\u0323"), "\u1E0C\u0307");
  EXPECT_EQ(in_form(UnicodeForm::kNfd, "\u1E0A\u0323"), "D\u0323\u0307");
  EXPECT_EQ(in_form(UnicodeForm::kNfc, "\u1112\u1161\u11AB"), "\uD55C");
  EXPECT_EQ(in_form(UnicodeForm::kNfd, "\uD55C"), "\u1112\u1161\u11AB");
  EXPECT_EQ(in_form(UnicodeForm::kNfkc, "\uFB01\u00A0\u2460"), "fi 1");
  EXPECT_EQ(in_form(UnicodeForm::kNfkd, "\uFB01\u00C5"), "fiA\u030A");
  EXPECT_EQ(in_form(UnicodeForm::kNfc, "a\u0315\u0300\u05AE\u0300\u0062"),
            "\u00E0\u05AE\u0300\u0315b");
  EXPECT_EQ(in_form(UnicodeForm::kNfc, "plain text"), "plain text");
}

TEST(NormalForms, CharactersSinceUnicode9AreLeftAlone) {
  EXPECT_EQ(in_form(UnicodeForm::kNfkc, "\u32FF"),
            "\u32FF");  // SQUARE ERA NAME REIWA, of Unicode 12.1
}

TEST(Graphemes, KeepMarksWithTheirLetter) {
  const std::string text = "e\u0301x\r\n";
  EXPECT_EQ(grapheme_end(text, 0), 3U);
  EXPECT_EQ(grapheme_end(text, 3), 4U);
  EXPECT_EQ(grapheme_end(text, 4), 6U);
}

TEST(Base64, EqualsThePublishedVectors) {  // RFC 4648
  EXPECT_EQ(decode_base64("Zm9vYmFy", "f"), "foobar");
  EXPECT_EQ(decode_base64("Zm9vYg==", "f"), "foob");
  EXPECT_EQ(decode_base64("", "f"), "");
}

}  // namespace
}  // namespace fm::tokenizer
