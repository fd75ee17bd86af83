// Text and CSV as lines of JSONL. What is expected are the rows that Hugging Face's datasets make
// of the same bytes (tests/oracle/row_files_test.py compares them).
#include "text/data/row_lines.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "core/check.h"
#include "tests/text/data/scratch_folder.h"

namespace fm::data {
namespace {

// In pieces of `size` bytes.
std::string lines_of(RowLayout layout, const std::string& text, std::size_t size = 1'000) {
  std::size_t at = 0;
  std::string piece;
  const auto rows = make_row_lines(layout, {.next_piece =
                                                [&] {
                                                  piece = text.substr(at, size);
                                                  at += piece.size();
                                                  return std::string_view(piece);
                                                },
                                            .path = "f.txt"});
  std::string out;
  for (std::string_view got = rows->next(); !got.empty(); got = rows->next()) out += got;
  return out;
}

std::string refusal(RowLayout layout, const std::string& text) {
  return testing::message_of<core::UserError>(11, [&] { lines_of(layout, text); });
}

constexpr auto kLines = RowLayout::kTextLines;
constexpr auto kParagraphs = RowLayout::kParagraphs;
constexpr auto kWhole = RowLayout::kWholeFile;
constexpr auto kCsv = RowLayout::kCsv;

TEST(TextRows, ALineIsADocumentAndEmptyOnesAreNone) {
  EXPECT_EQ(lines_of(kLines, "ab\n\n c \r\n\r\nd"),
            "{\"text\":\"ab\"}\n\n{\"text\":\" c \"}\n\n{\"text\":\"d\"}\n");
  EXPECT_EQ(lines_of(kLines, "\xef\xbb\xbfq\"\\\t\x01\n"),
            "{\"text\":\"q\\\"\\\\\\u0009\\u0001\"}\n");
  EXPECT_EQ(lines_of(kLines, ""), "");
}

TEST(TextRows, ParagraphsEndAtEmptyLinesAndKeepTheNumbersOfTheirLines) {
  EXPECT_EQ(lines_of(kParagraphs, "a\nb\r\n\r\n\n\nc\n"),
            "{\"text\":\"a\\u000ab\"}\n\n\n\n\n{\"text\":\"c\\u000a\"}\n");
  EXPECT_EQ(lines_of(kParagraphs, "a\n\n\nb"), "{\"text\":\"a\"}\n\n{\"text\":\"\\u000ab\"}\n");
}

TEST(TextRows, AFileMayBeOneDocument) {
  EXPECT_EQ(lines_of(kWhole, "a\r\n\nb\n"), "{\"text\":\"a\\u000a\\u000ab\\u000a\"}\n\n\n");
}

TEST(TextRows, WhatIsNoUtf8IsABadRow) {
  const std::string lines = lines_of(kLines, "a\nb\xe9\xffz\nc\n");
  EXPECT_TRUE(
      lines.starts_with("{\"text\":\"a\"}\n\x1atext must be UTF-8; convert the file, as with "
                        "iconv -f LATIN1 -t UTF-8 (byte 233 at place 2)\n"))
      << lines;
  EXPECT_TRUE(lines.ends_with("\n{\"text\":\"c\"}\n")) << lines;
}

// RFC 3629: the shortest forms alone, no surrogates, nothing beyond U+10FFFF.
TEST(CheckUtf8, TakesCharactersOfUtf8Alone) {
  for (const char* const good : {"", "a", "\xc2\x80", "\xe0\xa0\x80", "\xed\x9f\xbf",
                                 "\xee\x80\x80", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(check_utf8(good), "") << good;
  }
  for (const char* const bad :
       {"\x80", "\xc1\xbf", "\xc2", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xe2\x82", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff\xfe"}) {
    EXPECT_NE(check_utf8(bad), "") << bad;
  }
}

TEST(CsvRows, AHeaderNamesTheValuesOfARow) {
  EXPECT_EQ(lines_of(kCsv, "\xef\xbb\xbfq,a\r\n1,\"x, \"\"y\"\"\"\r\n"),
            "\n{\"q\":\"1\",\"a\":\"x, \\\"y\\\"\"}\n");
  EXPECT_EQ(lines_of(RowLayout::kTsv, "q\ta\n1,2\t\" 3\"\n"), "\n{\"q\":\"1,2\",\"a\":\" 3\"}\n");
}

TEST(CsvRows, WhatIsEmptyOrNotThereIsNull) {
  EXPECT_EQ(lines_of(kCsv, "a,b,c\n,\"\",x\ny\n"),
            "\n{\"a\":null,\"b\":null,\"c\":\"x\"}\n{\"a\":\"y\",\"b\":null,\"c\":null}\n");
  EXPECT_EQ(lines_of(kCsv, ",a\n0,b"), "\n{\"Unnamed: 0\":\"0\",\"a\":\"b\"}\n");  // to_csv's index
}

TEST(CsvRows, ARowMayTakeSeveralLinesAndTheNextOneKeepsItsNumber) {
  EXPECT_EQ(lines_of(kCsv, "a,b\n\n\"x\r\ny\n\",1\n \nz,\"\n\"\n"),
            "\n\n{\"a\":\"x\\u000d\\u000ay\\u000a\",\"b\":\"1\"}\n\n\n\n"
            "{\"a\":\"z\",\"b\":\"\\u000a\"}\n\n");
}

// As the parser of pandas has it.
TEST(CsvRows, AQuoteWithinAValueIsACharacter) {
  EXPECT_EQ(lines_of(kCsv, "a,b\nx\"y\",\"z\"w\"\n"),
            "\n{\"a\":\"x\\\"y\\\"\",\"b\":\"zw\\\"\"}\n");
}

TEST(CsvRows, TooManyValuesAndOtherTextAreBadRows) {
  EXPECT_EQ(lines_of(kCsv, "a,b\n1,2,3\n4,5\n"),
            "\n\x1a"
            "a row must have at most as many values as there are columns; put values that hold the "
            "separator into quotes (3 values, 2 columns)\n{\"a\":\"4\",\"b\":\"5\"}\n");
  EXPECT_NE(lines_of(kCsv, "a\n\xff\n").find("\x1atext must be UTF-8"), std::string::npos);
}

TEST(CsvRows, AFileThatIsNoTableIsRefusedWithItsLine) {
  EXPECT_EQ(refusal(kCsv, "a,b\n1,2\n3,\"4\n5,6\n").substr(0, 43),
            "f.txt:3: a quoted value must end with a quo");
  EXPECT_EQ(refusal(kCsv, "a,b,a\n"),
            "f.txt:1: a column must have a name of its own; rename one (\"a\")");
  EXPECT_EQ(refusal(kCsv,
                    "\xff\xfe"
                    "a")
                .substr(0, 28),
            "f.txt:1: text must be UTF-8;");
}

TEST(RowLines, PiecesDoNotMatter) {
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp,bugprone-random-generator-seed)
  const std::string letters = "ab,\"\"\n\n\r\t \xc3\xa9";
  for (int round = 0; round < 300; ++round) {
    std::string text = "c1,c2,c3,c4,c5,c6,c7,c8\n";
    for (int at = 0; at < 30; ++at) text += letters[random() % letters.size()];
    text += "\"";
    if (std::ranges::count(text, '"') % 2 == 1) text += "\"";
    for (const RowLayout layout : {kLines, kParagraphs, kWhole, kCsv, RowLayout::kTsv}) {
      const auto outcome = [&](std::size_t size) -> std::string {
        try {
          return lines_of(layout, text, size);
        } catch (const core::UserError& error) {
          return error.what();
        }
      };
      const std::string whole = outcome(1'000);
      for (const std::size_t size : {3, 7}) EXPECT_EQ(outcome(size), whole) << text;
    }
  }
}

TEST(AppendJson, IsReadBackAsItWas) {
  std::string all;
  for (int byte = 0; byte < 128; ++byte) all += static_cast<char>(byte);
  std::string json;
  append_json(json, all + "\xc3\xa9");
  EXPECT_EQ(nlohmann::json::parse(json).get<std::string>(), all + "\xc3\xa9");
}

}  // namespace
}  // namespace fm::data
