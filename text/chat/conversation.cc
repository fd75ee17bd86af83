#include "text/chat/conversation.h"

#include <algorithm>

#include "core/text.h"
#include "text/chat/column_advice.h"
#include "text/jinja/json_text.h"

namespace fm::chat {
namespace {

bool has(const jinja::Value& object, std::string_view name) {
  return find_field(object, name) != nullptr;
}

bool says(const jinja::Value& object, std::string_view name) {
  const jinja::Value* found = find_field(object, name);
  return found != nullptr && is_filled(*found);
}

// The fields of a form, which are there together; in the order of their ranks.
struct FormFields {
  Form form;
  std::string_view first;
  std::string_view second;
};
constexpr FormFields kForms[] = {{Form::kMessages, "messages", "messages"},
                                 {Form::kConversations, "conversations", "conversations"},
                                 {Form::kPromptCompletion, "prompt", "completion"},
                                 {Form::kAlpaca, "instruction", "output"}};

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
bool is_parts(const jinja::Value& content) {
  const jinja::Sequence* parts = content.sequence();
  return parts != nullptr &&
         std::all_of(parts->items.begin(), parts->items.end(),
                     [](const jinja::Value& part) { return has(part, "type"); });
}

// Fills reasoning_content from its older names, as transformers does.
void add_reasoning(jinja::Entries& fields) {
  for (const std::string_view name : {"reasoning_content", "thinking", "reasoning"}) {
    const auto found = std::find_if(fields.begin(), fields.end(),
                                    [&](const auto& field) { return field.first == name; });
    if (found == fields.end()) continue;
    const jinja::Value reasoning = found->second;
    const bool has_thinking = std::any_of(
        fields.begin(), fields.end(), [](const auto& field) { return field.first == "thinking"; });
    if (!has_thinking) fields.insert(fields.begin(), {"thinking", reasoning});
    jinja::set_entry(fields, "reasoning_content", reasoning);
    return;
  }
}

jinja::Value read_message(const jinja::Value& message, const std::string& where) {
  FM_DATA_CHECK(message.dict() != nullptr, where,
                ": a message must be an object; correct the line (", kind_name(message), ")");
  const jinja::Value* role = find_field(message, "role");
  FM_DATA_CHECK(role != nullptr && role->text() != nullptr, where,
                ": a message must have the text \"role\"; add it");
  const bool known =
      std::find(std::begin(kRoles), std::end(kRoles), *role->text()) != std::end(kRoles);
  FM_DATA_CHECK(known, where, ": a role must be assistant, developer, function, ipython, system, ",
                "tool or user; correct it (role=\"", *role->text(), "\")");
  const jinja::Value* content = find_field(message, "content");
  if (content == nullptr) {
    FM_DATA_CHECK(has(message, "tool_calls"), where,
                  ": a message must have \"content\" or \"tool_calls\"; add it (role=\"",
                  *role->text(), "\")");
  } else {
    FM_DATA_CHECK(content->text() != nullptr || is_parts(*content), where,
                  ": \"content\" must be text or a list of objects with a \"type\"; correct it (",
                  kind_name(*content), ", role=\"", *role->text(), "\")");
  }
  jinja::Entries fields;
  for (const auto& [name, value] : message.dict()->entries) {
    if (!value.is<jinja::None>()) fields.emplace_back(name, value);
  }
  add_reasoning(fields);
  return jinja::make_dict(std::move(fields));
}

jinja::Value read_turn(const jinja::Value& turn, const std::string& where) {
  const jinja::Value* speaker = find_field(turn, "from");
  const jinja::Value* text = find_field(turn, "value");
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
  return jinja::make_dict({{"role", std::string(found->second)}, {"content", *text}});
}

// Whether a message is trained, as far as it says so. The names are those of OpenAI and
// mistral-finetune (weight), axolotl (train, training, trainable), ms-swift (loss) and others.
constexpr std::string_view kMarks[] = {"weight",    "train",     "training",
                                       "trainable", "loss_mask", "loss"};

struct Mark {
  std::string_view name;
  bool trained;
};

std::optional<Mark> read_mark(const jinja::Value& message, const std::string& where) {
  std::optional<Mark> mark;
  for (const std::string_view name : kMarks) {
    const jinja::Value* value = find_field(message, name);
    if (value == nullptr) continue;
    const bool one = jinja::equal(*value, jinja::Value(std::int64_t{1}));
    FM_DATA_CHECK(one || jinja::equal(*value, jinja::Value(std::int64_t{0})), where, ": \"", name,
                  "\" must be 0, 1, true or false: an answer is trained or it is not; correct it (",
                  jinja::to_text(*value), ")");
    FM_DATA_CHECK(!mark || mark->trained == one, where, ": \"", mark ? mark->name : "", "\" and \"",
                  name, "\" must say the same; remove one of them");
    mark = Mark{name, one};
  }
  return mark;
}

// Why a message cannot be trained as it asks to be; "": it can.
std::string why_untrainable(const jinja::Value& message, bool answer,
                            const std::optional<Mark>& mark) {
  for (const char* name : {"train_detail", "training_detail"}) {
    if (says(message, name))
      return core::concat("\"", name, "\" trains parts of a message, but a message is trained ",
                          "whole or not at all; remove the field, or write \"segments\"");
  }
  const jinja::Value* content = find_field(message, "content");
  for (const jinja::Value& part :
       content != nullptr && is_parts(*content) ? content->sequence()->items : jinja::Values{}) {
    if (const std::optional<Mark> of_part = read_mark(part, "content"))
      return core::concat("\"", of_part->name, "\" marks a part of a message, but a message is ",
                          "trained whole or not at all; remove the field, or write \"segments\"");
  }
  if (!mark || !mark->trained || answer) return "";
  return core::concat(
      "\"", mark->name, "\" asks to train a message that is no answer of the ",
      "assistant; remove the field, and train everything with --train_on_inputs if you "
      "want to");
}

// Messages of either form: conversations are often kept with "role" and "content" too.
void read_messages(Conversation& into, const jinja::Value& list, const std::string& where,
                   std::string_view name) {
  FM_DATA_CHECK(list.sequence() != nullptr && !list.sequence()->items.empty(), where, ": \"", name,
                "\" must be a list with messages; correct the line (", kind_name(list), ")");
  for (const jinja::Value& message : list.sequence()->items) {
    const auto index = static_cast<std::size_t>(&message - list.sequence()->items.data());
    const std::string at = place(where, name, index);
    jinja::Value read = has(message, "from") ? read_turn(message, at) : read_message(message, at);
    const bool answer = *find_field(read, "role")->text() == "assistant";
    const std::optional<Mark> mark = read_mark(message, at);
    if (answer && mark && !mark->trained) into.untrained.push_back(into.messages.size());
    const std::string why = why_untrainable(message, answer, mark);
    if (into.untrainable.empty() && !why.empty())
      into.untrainable = core::concat(name, "[", index, "]: ", why);
    into.messages.push_back(std::move(read));
  }
}

// Where LLaMA-Factory and OpenHermes keep the system message of a conversation.
constexpr const char* kSystemFields[] = {"system", "system_prompt"};

// "system" beside a list of messages becomes its first one.
void read_system(Conversation& into, const jinja::Value& line, const jinja::Value& list,
                 const std::string& where) {
  const jinja::Value* first = list.sequence() == nullptr || list.sequence()->items.empty()
                                  ? nullptr
                                  : list.sequence()->items.data();
  for (const char* name : kSystemFields) {
    const jinja::Value* system = find_field(line, name);
    if (system == nullptr || !is_filled(*system)) continue;
    FM_DATA_CHECK(system->text() != nullptr, where, ": \"", name, "\" must be text; correct it (",
                  kind_name(*system), ")");
    const bool turn = first != nullptr && has(*first, "from");
    const jinja::Value* role =
        first == nullptr ? nullptr : find_field(*first, turn ? "from" : "role");
    const jinja::Value* other = nullptr;  // the system message that is there already
    if (!into.messages.empty()) {
      other = find_field(into.messages[0], "content");
    } else if (role != nullptr && jinja::equal(*role, "system")) {
      other = find_field(*first, turn ? "value" : "content");
    }
    FM_DATA_CHECK(other == nullptr || jinja::equal(*other, *system), where, ": \"", name,
                  "\" must say what the other system message of the line says; remove one of them");
    if (other == nullptr)
      into.messages.push_back(jinja::make_dict({{"role", "system"}, {"content", *system}}));
  }
}

// Refuses what would be dropped, because the form has no place for it.
void refuse_beside_texts(const jinja::Value& line, const std::string& where) {
  for (const char* name : {"system", "system_prompt", "history"}) {
    FM_DATA_CHECK(!says(line, name), where, ": \"", name,
                  "\" has no place beside a prompt that is text; write the line as \"messages\": ",
                  "the system message, earlier questions and answers, then this one");
  }
}

// A list whose items may be JSON as text, or the whole of it: tables of data keep objects so.
jinja::Value read_tools(const jinja::Value& line, const std::string& where) {
  FM_DATA_CHECK(!says(line, "functions"), where,
                ": \"functions\" is OpenAI's older form and is not read; write \"tools\", and ",
                "\"tool_calls\" in messages");
  if (!says(line, "tools")) return jinja::None{};
  const std::string at = where + ": \"tools\"";
  const auto parsed = [&](const jinja::Value& value) {
    return value.text() == nullptr ? value : jinja::parse_json(*value.text(), at);
  };
  const jinja::Value tools = parsed(*find_field(line, "tools"));
  FM_DATA_CHECK(tools.sequence() != nullptr, at, " must be a list; correct it (", kind_name(tools),
                ")");
  jinja::Values read;
  for (const jinja::Value& tool : tools.sequence()->items) {
    read.push_back(parsed(tool));
    FM_DATA_CHECK(read.back().dict() != nullptr, at,
                  " must be a list of objects, or of their JSON as text; correct it (",
                  kind_name(read.back()), ")");
  }
  if (read.empty()) return jinja::None{};
  return jinja::make_list(std::move(read));
}

Conversation with_rest(Conversation conversation, const jinja::Value& line,
                       const std::string& where) {
  conversation.tools = read_tools(line, where);
  if (const jinja::Value* variables = find_field(line, "chat_template_kwargs")) {
    FM_DATA_CHECK(variables->dict() != nullptr, where,
                  ": \"chat_template_kwargs\" must be an object; correct it");
    conversation.variables = variables->dict()->entries;
  }
  return conversation;
}

std::string text_field(const jinja::Value& line, const char* name, const std::string& where) {
  const jinja::Value* found = find_field(line, name);
  FM_DATA_CHECK(found != nullptr && found->text() != nullptr, where, ": \"", name,
                "\" must be text; correct the line (",
                found == nullptr ? "it is missing" : kind_name(*found), ")");
  return *found->text();
}

// The words of Stanford Alpaca's train.py.
PromptCompletion read_alpaca(const jinja::Value& line, const std::string& where) {
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

Conversation read_list(const jinja::Value& line, const char* name, const std::string& where) {
  Conversation conversation;
  const jinja::Value& list = *find_field(line, name);
  read_system(conversation, line, list, where);
  read_messages(conversation, list, where, name);
  return with_rest(std::move(conversation), line, where);
}

Record read_prompt(const jinja::Value& line, const std::string& where) {
  const jinja::Value& prompt = *find_field(line, "prompt");
  if (prompt.text() != nullptr) {
    refuse_beside_texts(line, where);
    return PromptCompletion{*prompt.text(), text_field(line, "completion", where)};
  }
  Conversation conversation;
  read_system(conversation, line, prompt, where);
  read_messages(conversation, prompt, where, "prompt");
  conversation.prompt = conversation.messages.size();
  read_messages(conversation, *find_field(line, "completion"), where, "completion");
  return with_rest(std::move(conversation), line, where);
}

}  // namespace

const jinja::Value* find_field(const jinja::Value& object, std::string_view name) {
  const jinja::Dict* dict = object.dict();
  const jinja::Value* found = dict == nullptr ? nullptr : dict->find(name);
  return found == nullptr || found->is<jinja::None>() ? nullptr : found;
}

bool is_filled(const jinja::Value& value) {
  const bool holds =
      value.text() != nullptr || value.sequence() != nullptr || value.dict() != nullptr;
  return holds ? jinja::truthy(value) : !value.is<jinja::None>();
}

std::optional<Form> form_of(const jinja::Value& line) {
  std::optional<Form> empty;
  for (const FormFields& each : kForms) {
    if (!has(line, each.first) || !has(line, each.second)) continue;
    if (says(line, each.first) || says(line, each.second)) return each.form;
    if (!empty) empty = each.form;
  }
  return empty;
}

bool is_filled(const jinja::Value& line, Form form) {
  const FormFields& fields = kForms[static_cast<std::size_t>(form)];
  return says(line, fields.first) || says(line, fields.second);
}

Record read_record(const jinja::Value& line, const std::string& where) {
  const std::optional<Form> form = form_of(line);
  FM_DATA_CHECK(form.has_value(), where,
                ": \"messages\", \"conversations\", \"prompt\" with \"completion\", or ",
                "\"instruction\" with \"output\" is required; add it");
  switch (*form) {
    case Form::kMessages: return read_list(line, "messages", where);
    case Form::kConversations: return read_list(line, "conversations", where);
    case Form::kPromptCompletion: return read_prompt(line, where);
    case Form::kAlpaca: refuse_beside_texts(line, where); return read_alpaca(line, where);
  }
  FM_CHECK(false, "a form of lines");
}

namespace {

// CSV has texts only.
std::optional<bool> truth_of(const jinja::Value& value) {
  if (const bool* truth = value.get<bool>()) return *truth;
  const std::string word = value.text() == nullptr ? "" : core::lower(*value.text());
  if (word == "true") return true;
  return word == "false" ? std::optional(false) : std::nullopt;
}

}  // namespace

void refuse_preferences(const jinja::Value& line, const std::string& where) {
  for (const char* name : {"chosen", "rejected"}) {
    const jinja::Value* answer = find_field(line, name);
    const bool flag = !says(line, name) || answer->get<bool>() != nullptr;
    FM_DATA_CHECK(flag, where, ": preference data is not trained here, and \"", name,
                  "\" is a part of it; train the chosen answers alone by ", columns_of_chosen(line),
                  ", or leave \"chosen\" and \"rejected\" out");
  }
  for (const char* name : {"label", "kto_tag"}) {
    const jinja::Value* label = find_field(line, name);
    const std::optional<bool> good = label == nullptr ? std::nullopt : truth_of(*label);
    FM_DATA_CHECK(!good, where, ": preference data is not trained here, and \"", name,
                  "\" says whether an answer is a good one; keep the lines where it is true, and ",
                  "remove the field (", name, "=", *good ? "true" : "false", ")");
  }
}

}  // namespace fm::chat
