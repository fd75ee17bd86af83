#include <gtest/gtest.h>

#include <vector>

#include "core/check.h"
#include "tests/text/data/scratch_folder.h"
#include "text/data/documents.h"

namespace fm::data {
namespace {

// The text comes in pieces of `size` bytes, each gone when the next one comes.
std::vector<std::string> documents_by(std::size_t size, std::string_view text,
                                      std::string_view field = "text") {
  std::vector<std::string> found;
  std::string piece;
  const auto next_piece = [&] {
    piece = text.substr(0, size);
    text.remove_prefix(piece.size());
    return std::string_view(piece);
  };
  BadLines bad;
  read_jsonl(next_piece, "f.jsonl", text_reader(std::string(field)), bad,
             [&](const Document& one) { found.push_back(decode_bytes(one.ids)); });
  return found;
}

std::vector<std::string> documents(std::string_view text, std::string_view field = "text") {
  return documents_by(std::string_view::npos, text, field);
}

std::string refusal(std::string_view text, std::string_view field = "text") {
  return testing::message_of<core::UserError>(11, [&] { documents(text, field); });
}

using Texts = std::vector<std::string>;

TEST(Jsonl, LinesAreDocumentsInOrder) {
  EXPECT_EQ(documents("{\"text\":\"a\"}\n{\"text\":\"b\"}\n"), (Texts{"a", "b"}));
  EXPECT_EQ(documents("{\"text\":\"no newline at the end\"}"), (Texts{"no newline at the end"}));
  EXPECT_EQ(documents("{\"text\":\"\"}\r\n\n  \n{ \"text\" : \"b\" }\r\n"), (Texts{"", "b"}));
}

TEST(Jsonl, PiecesMayBeCutAnywhere) {
  const std::string_view text =
      "{\"text\":\"a\xC3\xA9\"}\r\n\n{\"text\":\"\\n\"}\n{\"text\":\"b\"}";
  for (std::size_t size = 1; size <= text.size(); ++size) {
    EXPECT_EQ(documents_by(size, text), (Texts{"a\xC3\xA9", "\n", "b"})) << size;
    const std::string refused = testing::message_of<core::UserError>(
        11, [&] { documents_by(size, "\n{\"text\":\"a\"}\n\n{\"text\":5}\n"); });
    EXPECT_EQ(refused.rfind("f.jsonl:4: ", 0), 0U) << refused;
  }
}

TEST(Jsonl, EscapesBecomeUtf8) {
  EXPECT_EQ(documents(R"({"text":"\n\t\"\\\/\u00e9\ud83d\ude00"})"),
            (Texts{"\n\t\"\\/\xC3\xA9\xF0\x9F\x98\x80"}));
}

TEST(Jsonl, OnlyTheTopLevelFieldCounts) {
  EXPECT_EQ(documents(R"({"meta":{"text":5,"x":["text",{"text":1}]},"n":1.5,"text":"a","z":null})"),
            (Texts{"a"}));
  EXPECT_EQ(documents(R"({"text":1,"body":"b"})", "body"), (Texts{"b"}));
}

TEST(Jsonl, AFieldThatIsNullIsNotThere) {
  EXPECT_EQ(documents(R"({"text":null,"body":"b"})", "body"), (Texts{"b"}));
  EXPECT_EQ(documents(R"({"text":null,"x":{"text":null},"text":"a"})"), (Texts{"a"}));
  EXPECT_NE(refusal("{\"text\":null}").find("is required"), std::string::npos);
}

TEST(Jsonl, BadLinesAreNamed) {
  struct Case {
    const char* text;
    const char* place;
    const char* why;
  };
  const Case cases[] = {
      {"{\"text\":\"a\"}\n{\"text\":\"b\"\n", "f.jsonl:2: ", "JSON object"},
      {"{\"text\":\"a\"}\n\n{\"body\":\"b\"}\n", "f.jsonl:3: ", "field \"text\" is required"},
      {"{\"text\":7}\n", "f.jsonl:1: ", "it is a number"},
      {"{\"text\":null}\n", "f.jsonl:1: ", "field \"text\" is required"},
      {"{\"text\":[\"a\"]}\n", "f.jsonl:1: ", "it is an array"},
      {"{\"text\":{\"text\":\"a\"}}\n", "f.jsonl:1: ", "it is an object"},
      {"{\"text\":\"a\",\"text\":\"b\"}\n", "f.jsonl:1: ", "twice"},
      {"\"text\"\n", "f.jsonl:1: ", "JSON object"},
      {"[{\"text\":\"a\"}]\n", "f.jsonl:1: ", "JSON object"},
      {"{\"text\":\"a\"} x\n", "f.jsonl:1: ", "JSON object"},
      {"{\"text\":\"\xFF\"}\n", "f.jsonl:1: ", "UTF-8"},
      {"{\"text\":\"\\ud800\"}\n", "f.jsonl:1: ", "surrogate"},
  };
  for (const Case& one : cases) {
    const std::string message = refusal(one.text);
    EXPECT_EQ(message.rfind(one.place, 0), 0U) << message;
    EXPECT_NE(message.find(one.why), std::string::npos) << message;
  }
}

// Before anybody asks for a tokenizer, or how the lines are meant.
TEST(Jsonl, AFileWithoutAnObjectIsNoIdsAndNoText) {
  const testing::ScratchFolder folder;
  const auto said = [&](const std::string& text) {
    return testing::message_of<core::UserError>(11,
                                                [&] { holds_ids(folder.write("f.jsonl", text)); });
  };
  EXPECT_TRUE(said("\n{\"a\": NaN}\n{\"input_ids\": [1], \"b\": -Infinity}\n")
                  .starts_with((folder.path() / "f.jsonl").string() +
                               ":2: each line must be one JSON object; correct the line (byte 7"));
  EXPECT_NE(said("[1]\n").find("f.jsonl:1: each line must be one JSON object"), std::string::npos);
  for (const char* const empty : {"", "\n \n", "[]", "[ \n ]"}) {
    EXPECT_NE(said(empty).find("f.jsonl:1: at least one line with a JSON object is required"),
              std::string::npos)
        << said(empty);
  }
  EXPECT_FALSE(holds_ids(folder.write("g.jsonl", "{\"a\": NaN}\n{\"a\": {\"input_ids\": [1]}}")));
  EXPECT_TRUE(holds_ids(folder.write("h.jsonl", "{\"a\": NaN}\n{\"b\": 1, \"input_ids\": 7}")));
  EXPECT_FALSE(holds_ids((folder.path() / "none").string()));
}

TEST(Jsonl, AFileWithoutDocumentsIsRefused) {
  EXPECT_NE(refusal("").find("f.jsonl:1: at least one line"), std::string::npos);
  EXPECT_NE(refusal("\n \n").find("2 blank lines"), std::string::npos);
}

}  // namespace
}  // namespace fm::data
