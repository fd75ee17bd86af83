// The forms in which people keep conversations, one JSON object a line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/jinja/value.h"

namespace fm::chat {

// {"messages": [{"role", "content", ...}, ...]}, or {"prompt": [...], "completion": [...]} of
// messages, or ShareGPT's {"conversations": [{"from", "value"}, ...]}; each with "tools",
// "chat_template_kwargs", and "system" or "system_prompt", where they are given.
struct Conversation {
  jinja::Values messages;  // dicts without fields that are null, as transformers hands them over
  std::size_t prompt = 0;  // messages of the prompt, whose answers are not trained
  std::vector<std::size_t> untrained = {};  // answers that "weight": 0 and the like leave out
  std::string untrainable = {};             // why what a message asks for cannot be trained, or ""
  jinja::Value tools = jinja::None{};       // a list, or none
  jinja::Entries variables = {};            // chat_template_kwargs
};

// {"prompt": TEXT, "completion": TEXT}, or Stanford Alpaca's {"instruction", "input", "output"}
// in its own words.
struct PromptCompletion {
  std::string prompt;
  std::string completion;
};

using Record = std::variant<Conversation, PromptCompletion>;

// The list that a form's messages are in, or the fields of texts.
enum class Form : std::uint8_t { kMessages, kConversations, kPromptCompletion, kAlpaca };

// Which form an object has by its fields, the first of this order: "messages", "conversations",
// "prompt" and "completion", "instruction" and "output". Fields that are null are not there, and
// a form without a filled field comes behind the others.
std::optional<Form> form_of(const jinja::Value& line);
// Whether one of the form's fields holds something.
bool is_filled(const jinja::Value& line, Form form);
// The value of a field; nullptr: it is not there, or null.
const jinja::Value* find_field(const jinja::Value& object, std::string_view name);
// Whether a value holds something: tables of data fill columns with null, "" and [].
bool is_filled(const jinja::Value& value);

// Throws UserError (11) with `where` ("chats.jsonl:7") and the message or field that is wrong.
Record read_record(const jinja::Value& line, const std::string& where);
// Refuses what is kept to compare answers (DPO's "chosen" and "rejected", KTO's "label"), which
// would be trained as if it were good. Throws UserError (11) naming the field.
void refuse_preferences(const jinja::Value& line, const std::string& where);

}  // namespace fm::chat
