// A JSON array as the lines of a JSONL file.
#include "text/data/array_lines.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "core/check.h"
#include "core/text.h"
#include "tests/text/data/read_rows.h"
#include "tests/text/data/scratch_folder.h"
#include "text/data/data_paths.h"
#include "text/data/documents.h"

namespace fm::data {
namespace {

// In pieces of `size` bytes.
std::string lines_of(const std::string& text, std::size_t size = 1'000) {
  ArrayLines array("f.json");
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += size) {
    const std::string piece = text.substr(at, size);
    const std::string_view got = array.put(piece);
    EXPECT_EQ(got.size(), piece.size());
    out += got;
  }
  EXPECT_EQ(array.put(""), "");
  return out;
}

TEST(ArrayLines, ElementsBecomeLines) {
  EXPECT_EQ(lines_of("[{},{}]"), " {}\n{} ");
  EXPECT_EQ(lines_of("\xef\xbb\xbf [\n {\"a\": [1, {}]},\n 2\n]\n"),
            "\xef\xbb\xbf    {\"a\": [1, {}]}\n  2  \n");
  EXPECT_EQ(lines_of(R"(["a,[\"\\",1])"), R"( "a,[\"\\")"
                                          "\n1 ");
  EXPECT_EQ(lines_of("[]"), "  ");
}

TEST(ArrayLines, OtherTextsComeAsTheyAre) {
  for (const char* text : {"{\"a\": [1,\n2]}\n{}\n", "\n\n{\"a\": \"[,]\"}", "", " \n "}) {
    for (const std::size_t size : {1, 1'000}) EXPECT_EQ(lines_of(text, size), text);
  }
  // Behind an array as well: whoever reads the lines refuses them.
  EXPECT_EQ(lines_of("[1]\n[2, 3],\n"), " 1 \n[2, 3],\n");
}

TEST(ArrayLines, AnArrayWithoutItsEndIsRefused) {
  for (const char* text : {"[", "[{},", "[{\"a\": \"]", "[[]"}) {
    try {
      lines_of(text);
      ADD_FAILURE() << text;
    } catch (const core::UserError& error) {
      EXPECT_EQ(error.code(), core::ExitCode::kDataError);
      EXPECT_NE(std::string(error.what()).find("f.json: a JSON array must end"), std::string::npos);
    }
  }
}

// JSONL behind a line that begins as an array would be one element as long as the file.
TEST(ArrayLines, AnElementWithoutACommaBeforeItIsRefusedAtOnce) {
  const auto expect = [](const std::string& text, const std::string& where) {
    for (const std::size_t size : {1, 1'000}) {
      ArrayLines array("f.json");
      try {
        for (std::size_t at = 0; at < text.size(); at += size) array.put(text.substr(at, size));
        ADD_FAILURE() << text;
      } catch (const core::UserError& error) {
        EXPECT_EQ(error.code(), core::ExitCode::kDataError);
        EXPECT_NE(std::string(error.what()).find(where), std::string::npos) << error.what();
      }
    }
  };
  expect("[1, 2\n{\"text\": \"a\"}\n", "f.json:2: a comma is required behind element 2 of");
  expect("\n[{}\n\n{}", "f.json:4: a comma is required behind element 1 of");
  for (const char* text :
       {R"([[] [)", R"(["a" "b)", R"(["a"1)", R"([1"a)", "[1{", "[1 2", "[{}t", "[true false"}) {
    expect(text, "f.json:1: a comma is required behind element 1 of the JSON array");
  }
}

// Every line is an element as the JSON library reads the array, wherever pieces end.
TEST(ArrayLines, AgreesWithAParser) {
  std::mt19937_64 random(7);
  const auto below = [&](std::uint64_t limit) { return random() % limit; };
  for (int round = 0; round < 300; ++round) {
    nlohmann::json array = nlohmann::json::array();
    for (std::uint64_t i = below(6); i > 0; --i) {
      std::string text;
      for (std::uint64_t k = below(9); k > 0; --k) text += "\\\"[]{},\n a"[below(10)];
      switch (below(4)) {
        case 0: array.push_back({{text, {1, text}}}); break;
        case 1: array.push_back({text, nullptr, {{"b", nlohmann::json::array()}}}); break;
        case 2: array.push_back(text); break;
        case 3: array.push_back(1.5); break;
      }
    }
    const std::string text = array.dump(below(2) == 0 ? -1 : 1);
    const std::string lines = lines_of(text, 1 + below(text.size()));
    nlohmann::json read = nlohmann::json::array();
    for (const std::string& line : core::split(lines, '\n')) {
      if (line.find_first_not_of(' ') != line.npos) read.push_back(nlohmann::json::parse(line));
    }
    ASSERT_EQ(read, array) << text << "\n" << lines;
  }
}

TEST(ArrayLines, AreReadAsDocumentsOfIds) {
  const testing::ScratchFolder folder;
  const std::string array =
      folder.write("a.json", "[\n  {\"input_ids\": [1, 2,\n 3]},\n  {\"input_ids\": [4]}\n]\n");
  EXPECT_TRUE(holds_ids(array));
  EXPECT_FALSE(holds_ids(folder.write("t.json", "[{\"text\": \"a\"}]")));
  BadLines bad;
  const StreamPtr stream = open_ids({array, DataFormat::kJsonlIds}, {.vocab = 9}, bad);
  testing::Ids ids(4);
  stream->read(0, ids);
  EXPECT_EQ(ids, (testing::Ids{1, 2, 3, 4}));
  EXPECT_EQ(stream->begin_of(1), 3);
  const std::string wrong = folder.write("w.json", "[{\"input_ids\": [1]},\n{\"input_ids\": 2}]");
  try {
    open_ids({wrong, DataFormat::kJsonlIds}, {.vocab = 9}, bad);
    ADD_FAILURE();
  } catch (const core::UserError& error) {
    EXPECT_NE(std::string(error.what()).find("w.json:2: "), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace fm::data
