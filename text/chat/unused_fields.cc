#include "text/chat/unused_fields.h"

#include <algorithm>

namespace fm::chat {
namespace {

using Names = std::span<const std::string_view>;

constexpr std::string_view kMessageFields[] = {"role",     "content",   "weight",    "train",
                                               "training", "trainable", "loss_mask", "loss"};
constexpr std::string_view kTurnFields[] = {"from",     "value",     "weight",    "train",
                                            "training", "trainable", "loss_mask", "loss"};
// Names of one field (text/chat/conversation.cc: add_reasoning).
constexpr std::string_view kReasoning[] = {"reasoning_content", "thinking", "reasoning"};

bool contains(Names names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool mentions(const ChatFormat& format, std::string_view name) {
  return format.plain.mentions(name) || (format.with_tools && format.with_tools->mentions(name));
}

bool reads(const ChatFormat& format, std::string_view name) {
  if (!contains(kReasoning, name)) return mentions(format, name);
  return std::any_of(std::begin(kReasoning), std::end(kReasoning),
                     [&](std::string_view one) { return mentions(format, one); });
}

// More names than a note has are not looked for.
constexpr std::size_t kMostNames = 100;

void add(std::vector<std::string>& unused, std::string name) {
  if (unused.size() >= kMostNames) return;
  if (std::find(unused.begin(), unused.end(), name) == unused.end())
    unused.push_back(std::move(name));
}

void add_of_messages(std::vector<std::string>& unused, const jinja::Value& line,
                     std::string_view list, const ChatFormat& format) {
  for (const jinja::Value& message : find_field(line, list)->sequence()->items) {
    const bool turn = find_field(message, "from") != nullptr;
    for (const auto& [name, value] : message.dict()->entries) {
      const bool read = turn ? contains(kTurnFields, name)
                             : contains(kMessageFields, name) || reads(format, name);
      if (!read && is_filled(value)) add(unused, core::concat(list, "[].", name));
    }
  }
}

void add_of_conversation(std::vector<std::string>& unused, const jinja::Value& line,
                         const ChatFormat& format) {
  const jinja::Value* tools = find_field(line, "tools");
  if (tools != nullptr && is_filled(*tools) && !mentions(format, "tools")) add(unused, "tools");
  const jinja::Value* variables = find_field(line, "chat_template_kwargs");
  if (variables == nullptr) return;
  for (const auto& [name, value] : variables->dict()->entries) {
    if (!mentions(format, name)) add(unused, "chat_template_kwargs." + name);
  }
}

}  // namespace

std::vector<std::string> unused_fields(const jinja::Value& line, Names read) {
  std::vector<std::string> unused;
  for (const auto& [name, value] : line.dict()->entries) {
    if (is_filled(value) && !contains(read, name)) unused.push_back(name);
  }
  return unused;
}

std::vector<std::string> unused_fields(const jinja::Value& line, Form form,
                                       const ChatFormat* format) {
  static constexpr std::string_view kAlpaca[] = {"instruction", "input", "output"};
  static constexpr std::string_view kTexts[] = {"prompt", "completion"};
  static constexpr std::string_view kRest[] = {"tools", "chat_template_kwargs", "system",
                                               "system_prompt"};
  if (form == Form::kAlpaca) return unused_fields(line, kAlpaca);
  const bool pair = form == Form::kPromptCompletion;
  if (pair && find_field(line, "prompt")->text() != nullptr) return unused_fields(line, kTexts);
  std::vector<std::string_view> read(std::begin(kRest), std::end(kRest));
  if (pair) read.insert(read.end(), std::begin(kTexts), std::end(kTexts));
  if (!pair) read.push_back(form == Form::kMessages ? "messages" : "conversations");
  std::vector<std::string> unused = unused_fields(line, read);
  if (format == nullptr) return unused;
  add_of_conversation(unused, line, *format);
  for (const std::string_view list : std::span(read).subspan(std::size(kRest))) {
    add_of_messages(unused, line, list, *format);
  }
  return unused;
}

}  // namespace fm::chat
