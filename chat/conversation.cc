#include "chat/conversation.h"

#include <algorithm>

#include "chat/json_text.h"

namespace fm::chat {
namespace {

bool has(const Value& object, std::string_view name) { return find_field(object, name) != nullptr; }

constexpr std::string_view kRoles[] = {"assistant", "developer", "function", "ipython",
                                       "system",    "tool",      "user"};

// The roles of ShareGPT's "from".
constexpr std::pair<std::string_view, std::string_view> kSpeakers[] = {
    {"assistant", "assistant"}, {"bard", "assistant"}, {"bing", "assistant"},
    {"chatgpt", "assistant"},   {"gpt", "assistant"},  {"human", "user"},
    {"observation", "tool"},    {"system", "system"},  {"tool", "tool"},
    {"user", "user"},
};

// Where in a line: "chats.jsonl:7: message 3".
std::string place(const std::string& where, std::string_view list, std::size_t index) {
  return core::concat(where, ": ", list, "[", index, "]");
}

// A list of texts and images, as some templates take it.
bool is_parts(const Value& content) {
  const Sequence* parts = content.sequence();
  return parts != nullptr && std::all_of(parts->items.begin(), parts->items.end(),
                                         [](const Value& part) { return has(part, "type"); });
}

// Fills reasoning_content from its older names, as transformers does.
void add_reasoning(Entries& fields) {
  for (const std::string_view name : {"reasoning_content", "thinking", "reasoning"}) {
    const auto found = std::find_if(fields.begin(), fields.end(),
                                    [&](const auto& field) { return field.first == name; });
    if (found == fields.end()) continue;
    const Value reasoning = found->second;
    const bool has_thinking = std::any_of(
        fields.begin(), fields.end(), [](const auto& field) { return field.first == "thinking"; });
    if (!has_thinking) fields.insert(fields.begin(), {"thinking", reasoning});
    set_entry(fields, "reasoning_content", reasoning);
    return;
  }
}

Value read_message(const Value& message, const std::string& where) {
  FM_DATA_CHECK(message.dict() != nullptr, where,
                ": a message must be an object; correct the line (", kind_name(message), ")");
  const Value* role = find_field(message, "role");
  FM_DATA_CHECK(role != nullptr && role->text() != nullptr, where,
                ": a message must have the text \"role\"; add it");
  const bool known =
      std::find(std::begin(kRoles), std::end(kRoles), *role->text()) != std::end(kRoles);
  FM_DATA_CHECK(known, where, ": a role must be assistant, developer, function, ipython, system, ",
                "tool or user; correct it (role=\"", *role->text(), "\")");
  const Value* content = find_field(message, "content");
  if (content == nullptr) {
    FM_DATA_CHECK(has(message, "tool_calls"), where,
                  ": a message must have \"content\" or \"tool_calls\"; add it (role=\"",
                  *role->text(), "\")");
  } else {
    FM_DATA_CHECK(content->text() != nullptr || is_parts(*content), where,
                  ": \"content\" must be text or a list of objects with a \"type\"; correct it (",
                  kind_name(*content), ", role=\"", *role->text(), "\")");
  }
  Entries fields;
  for (const auto& [name, value] : message.dict()->entries) {
    if (!value.is<None>()) fields.emplace_back(name, value);
  }
  add_reasoning(fields);
  return make_dict(std::move(fields));
}

Value read_turn(const Value& turn, const std::string& where) {
  const Value* speaker = find_field(turn, "from");
  const Value* text = find_field(turn, "value");
  FM_DATA_CHECK(speaker != nullptr && speaker->text() != nullptr && text != nullptr &&
                    text->text() != nullptr,
                where, ": a turn must have the texts \"from\" and \"value\"; add them");
  const auto found =
      std::find_if(std::begin(kSpeakers), std::end(kSpeakers),
                   [&](const auto& known) { return known.first == *speaker->text(); });
  FM_DATA_CHECK(
      found != std::end(kSpeakers), where,
      ": \"from\" must be human, gpt, system, tool or another name of theirs; correct it ",
      "(from=\"", *speaker->text(), "\")");
  return make_dict({{"role", std::string(found->second)}, {"content", *text}});
}

// Messages of either form: conversations are often kept with "role" and "content" too.
void read_messages(Values& messages, const Value& list, const std::string& where,
                   std::string_view name) {
  FM_DATA_CHECK(list.sequence() != nullptr && !list.sequence()->items.empty(), where, ": \"", name,
                "\" must be a list with messages; correct the line (", kind_name(list), ")");
  for (const Value& message : list.sequence()->items) {
    const auto index = static_cast<std::size_t>(&message - list.sequence()->items.data());
    const std::string at = place(where, name, index);
    messages.push_back(has(message, "from") ? read_turn(message, at) : read_message(message, at));
  }
}

Value read_tools(const Value& line, const std::string& where) {
  const Value* given = find_field(line, "tools");
  if (given == nullptr) return None{};
  // Tables of data keep lists of objects as text.
  Value tools =
      given->text() == nullptr ? *given : parse_json(*given->text(), where + ": \"tools\"");
  FM_DATA_CHECK(tools.sequence() != nullptr, where, ": \"tools\" must be a list; correct it (",
                kind_name(tools), ")");
  if (tools.sequence()->items.empty()) return None{};
  return tools;
}

Conversation with_rest(Conversation conversation, const Value& line, const std::string& where) {
  conversation.tools = read_tools(line, where);
  if (const Value* variables = find_field(line, "chat_template_kwargs")) {
    FM_DATA_CHECK(variables->dict() != nullptr, where,
                  ": \"chat_template_kwargs\" must be an object; correct it");
    conversation.variables = variables->dict()->entries;
  }
  return conversation;
}

std::string text_field(const Value& line, const char* name, const std::string& where) {
  const Value* found = find_field(line, name);
  FM_DATA_CHECK(found != nullptr && found->text() != nullptr, where, ": \"", name,
                "\" must be text; correct the line (",
                found == nullptr ? "it is missing" : kind_name(*found), ")");
  return *found->text();
}

// The words of Stanford Alpaca's train.py.
PromptCompletion read_alpaca(const Value& line, const std::string& where) {
  const std::string instruction = text_field(line, "instruction", where);
  const std::string input = has(line, "input") ? text_field(line, "input", where) : "";
  const std::string task =
      input.empty()
          ? "Below is an instruction that describes a task. Write a response that appropriately "
            "completes the request.\n\n### Instruction:\n" +
                instruction
          : "Below is an instruction that describes a task, paired with an input that provides "
            "further context. Write a response that appropriately completes the request.\n\n"
            "### Instruction:\n" +
                instruction + "\n\n### Input:\n" + input;
  return {task + "\n\n### Response:", text_field(line, "output", where)};
}

}  // namespace

const Value* find_field(const Value& object, std::string_view name) {
  const Dict* dict = object.dict();
  const Value* found = dict == nullptr ? nullptr : dict->find(name);
  return found == nullptr || found->is<None>() ? nullptr : found;
}

bool is_record(const Value& line) {
  return has(line, "messages") || has(line, "conversations") ||
         (has(line, "prompt") && has(line, "completion")) ||
         (has(line, "instruction") && has(line, "output"));
}

Record read_record(const Value& line, const std::string& where) {
  Conversation conversation;
  for (const char* name : {"messages", "conversations"}) {
    const Value* list = find_field(line, name);
    if (list == nullptr) continue;
    read_messages(conversation.messages, *list, where, name);
    return with_rest(std::move(conversation), line, where);
  }
  if (has(line, "instruction")) return read_alpaca(line, where);
  const Value* prompt = find_field(line, "prompt");
  const Value* completion = find_field(line, "completion");
  FM_DATA_CHECK(prompt != nullptr && completion != nullptr, where,
                ": \"messages\", \"conversations\", \"prompt\" with \"completion\", or ",
                "\"instruction\" with \"output\" is required; add it");
  if (prompt->text() != nullptr)
    return PromptCompletion{*prompt->text(), text_field(line, "completion", where)};
  read_messages(conversation.messages, *prompt, where, "prompt");
  conversation.prompt = conversation.messages.size();
  read_messages(conversation.messages, *completion, where, "completion");
  return with_rest(std::move(conversation), line, where);
}

}  // namespace fm::chat
