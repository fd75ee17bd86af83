// The forms in which people keep conversations, one JSON object a line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>

#include "chat/value.h"

namespace fm::chat {

// {"messages": [{"role", "content", ...}, ...]}, or {"prompt": [...], "completion": [...]} of
// messages, or ShareGPT's {"conversations": [{"from", "value"}, ...]}; each with "tools" and
// "chat_template_kwargs" where they are given.
struct Conversation {
  Values messages;         // dicts without fields that are null, as transformers hands them over
  std::size_t prompt = 0;  // messages of the prompt, whose answers are not trained
  Value tools = None{};    // a list, or none
  Entries variables = {};  // chat_template_kwargs
};

// {"prompt": TEXT, "completion": TEXT}, or Stanford Alpaca's {"instruction", "input", "output"}
// in its own words.
struct PromptCompletion {
  std::string prompt;
  std::string completion;
};

using Record = std::variant<Conversation, PromptCompletion>;

// Whether an object has the fields of one of the forms: "messages", "conversations",
// "prompt" and "completion", "instruction" and "output".
bool is_record(const Value& line);
// The value of a field; nullptr: it is not there, or null.
const Value* find_field(const Value& object, std::string_view name);
// Throws UserError (11) with `where` ("chats.jsonl:7") and the message or field that is wrong.
Record read_record(const Value& line, const std::string& where);

}  // namespace fm::chat
