#include "text/chat/column_advice.h"

#include <span>
#include <string_view>

#include "text/chat/conversation.h"

namespace fm::chat {
namespace {

constexpr std::string_view kQuestions[] = {"prompt",  "question", "query", "instruction",
                                           "problem", "input",    "user",  "source"};
constexpr std::string_view kAnswers[] = {"completion", "response",  "answer", "output",
                                         "solution",   "assistant", "target", "summary"};
constexpr std::string_view kTexts[] = {"content", "document", "body",
                                       "article", "code",     "markdown"};

// "" where none of the names is a field that holds text.
std::string text_field(const jinja::Value& row, std::span<const std::string_view> names) {
  for (const std::string_view name : names) {
    const jinja::Value* const value = find_field(row, name);
    if (value != nullptr && value->text() != nullptr) return std::string(name);
  }
  return "";
}

// "messages" or "conversations", where a value is a list of that.
std::string_view meaning_of_list(const jinja::Value& value) {
  const jinja::Sequence* const list = value.sequence();
  if (list == nullptr || list->items.empty()) return "";
  const jinja::Value& first = list->items.front();
  if (first.dict() == nullptr) return "";
  if (find_field(first, "role") != nullptr) return "messages";
  return find_field(first, "from") != nullptr ? "conversations" : "";
}

void add(std::string& words, std::string_view field, std::string_view meaning) {
  if (field == meaning) return;
  words += core::concat(words.empty() ? "" : ",", field, "=", meaning);
}

std::string columns_for(const jinja::Value& row) {
  std::string words;
  for (const auto& [name, value] : row.dict()->entries) {
    const std::string_view meaning = meaning_of_list(value);
    if (words.empty() && !meaning.empty()) add(words, name, meaning);
  }
  if (!words.empty()) return words;
  const std::string question = text_field(row, kQuestions);
  const std::string answer = text_field(row, kAnswers);
  if (question.empty() || answer.empty()) {
    const std::string text = text_field(row, kTexts);
    if (!text.empty()) add(words, text, "text");
    return words;
  }
  const bool alpaca = question == "instruction";
  add(words, question, alpaca ? "instruction" : "prompt");
  if (alpaca && find_field(row, "context") != nullptr) add(words, "context", "input");
  add(words, answer, alpaca ? "output" : "completion");
  return words;
}

}  // namespace

std::string advice_on_columns(const jinja::Value& row) {
  const std::string words = columns_for(row);
  return words.empty() ? "" : "say what the fields are, as with --columns " + words;
}

std::string columns_of_chosen(const jinja::Value& row) {
  const jinja::Value* const chosen = find_field(row, "chosen");
  const bool whole = find_field(row, "prompt") == nullptr;
  const bool list = chosen != nullptr && chosen->sequence() != nullptr;
  const char* const meaning = !whole ? "completion" : list ? "messages" : "text";
  return core::concat("--columns chosen=", meaning, ",rejected=not_trained");
}

}  // namespace fm::chat
