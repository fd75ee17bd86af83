// Thousands of damaged corpora: the reader gives what a second, independent way of reading gives
// (one DOM per line), or refuses the line that the second way refuses.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "core/check.h"
#include "text/data/documents.h"

namespace fm::data {
namespace {

struct Verdict {
  std::vector<std::string> texts;
  std::int64_t bad_line = 0;  // 0: none
  bool operator==(const Verdict&) const = default;
};

Verdict by_reader(const std::string& text) {
  Verdict verdict;
  try {
    std::string_view whole = text;
    const auto next_piece = [&] { return std::exchange(whole, {}); };
    BadLines bad;
    read_jsonl(next_piece, "f", text_reader("text"), bad,
               [&](const Document& one) { verdict.texts.push_back(decode_bytes(one.ids)); });
  } catch (const core::UserError& error) {
    verdict.bad_line = std::stoll(std::string(error.what()).substr(2));
  }
  return verdict;
}

// How often "text" is a key of the line's own object: the DOM forgets duplicates.
int keys_in(const std::string& line) {
  int keys = 0;
  const auto count = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    if (event == nlohmann::json::parse_event_t::key && depth == 1 && parsed == "text") ++keys;
    return true;
  };
  const auto parsed = nlohmann::json::parse(line, count, false);
  return parsed.is_discarded() ? 0 : keys;
}

Verdict by_dom(const std::string& text) {
  Verdict verdict;
  std::istringstream lines(text);
  std::string line;
  std::int64_t number = 0;
  while (std::getline(lines, line)) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const nlohmann::json parsed = nlohmann::json::parse(line, nullptr, false);
    const bool good = parsed.is_object() && parsed.contains("text") && parsed["text"].is_string() &&
                      keys_in(line) == 1;
    if (!good) return verdict.bad_line = number, verdict;
    verdict.texts.push_back(parsed["text"]);
  }
  if (verdict.texts.empty()) verdict.bad_line = 1;
  return verdict;
}

TEST(JsonlMutation, AgreesWithASecondReader) {
  const std::string seeds[] = {
      "{\"text\":\"hello\"}\n{\"a\":[1,2,{\"text\":3}],\"text\":\"x\\u00e9\\n\"}\n\n{\"text\":\"\"}"
      "\n",
      "{\"text\":\"a\\\"b\",\"n\":-1.5e3,\"t\":true}\r\n{\"text\":\"\xF0\x9F\x98\x80\"}",
  };
  const std::string letters = "{}[]\":,\\untxe01 \n\r\t-.\xC3\xFF";
  std::mt19937 random(20240607);
  int accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text = seeds[random() % 2];
    const auto changes = 1 + random() % 3;
    for (unsigned long change = 0; change < changes; ++change) {
      const std::size_t at = random() % text.size();
      const char letter = letters[random() % letters.size()];
      switch (random() % 4) {
        case 0: text[at] = letter; break;
        case 1: text.insert(at, 1, letter); break;
        case 2: text.erase(at, 1 + random() % 3); break;
        default:  // the third: a piece is doubled
          text.insert(at, text.substr(random() % text.size(), random() % 12));
          break;
      }
      if (text.empty()) text = " ";
    }
    const Verdict verdict = by_reader(text);
    ASSERT_EQ(verdict, by_dom(text)) << text;
    accepted += verdict.bad_line == 0 ? 1 : 0;
  }
  EXPECT_GT(accepted, 1000);  // the test would prove little if nearly all were refused
}

}  // namespace
}  // namespace fm::data
