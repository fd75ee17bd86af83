#include "engine/infer/model_text.h"

#include <algorithm>
#include <ctime>

#include "core/check.h"
#include "core/files/files.h"
#include "core/text.h"
#include "text/chat/answers.h"
#include "text/data/array_lines.h"
#include "text/jinja/code_points.h"
#include "text/jinja/json_text.h"

namespace fm::engine {
namespace {

bool is_jsonl(const std::string& path) {
  return path.ends_with(".jsonl") || path.ends_with(".json");
}

// Without those that are empty.
std::vector<TextLine> lines_of(const std::string& path) {
  core::SmallFile file = core::read_small_file(path, core::kMostListing, core::FileKind::kAny);
  FM_DATA_CHECK(file.problem.empty(), "a file with one text a line is required; check the path (",
                path, ": ", file.problem, ")");
  file.text = core::without_byte_order_mark(file.text);
  if (is_jsonl(path)) {
    data::ArrayLines array(path);
    file.text = array.put(file.text);
    array.put("");
  }
  std::vector<TextLine> lines;
  std::size_t number = 0;
  for (std::string& text : core::split(file.text, '\n')) {
    ++number;
    if (text.ends_with('\r')) text.pop_back();
    FM_DATA_CHECK(jinja::is_utf8(text), path, ":", number,
                  ": a text must be UTF-8; convert the file, as iconv -f LATIN1 -t UTF-8 does");
    const bool blank = text.find_first_not_of(is_jsonl(path) ? " \t" : "") == text.npos;
    if (!blank) lines.push_back({std::move(text), core::concat(path, ":", number)});
  }
  FM_DATA_CHECK(!lines.empty(), "a file with one text a line is required; this one is empty (",
                path, ")");
  return lines;
}

// What the line asks, where it is a conversation.
std::optional<chat::Conversation> conversation_of(const jinja::Value& line,
                                                  const std::string& where) {
  const jinja::Value* prompt = chat::find_field(line, "prompt");
  jinja::Value object = line;
  if (prompt != nullptr && prompt->sequence() != nullptr) {
    jinja::Entries fields = line.dict()->entries;
    std::erase_if(fields, [](const std::pair<std::string, jinja::Value>& field) {
      return field.first == "completion" || field.second.is<jinja::None>();
    });
    for (auto& [name, value] : fields) {
      if (name == "prompt") name = "messages";
    }
    object = jinja::make_dict(std::move(fields));
  } else if (chat::find_field(line, "messages") == nullptr &&
             chat::find_field(line, "conversations") == nullptr) {
    return std::nullopt;
  }
  chat::Record record = chat::read_record(object, where);
  auto* const conversation = std::get_if<chat::Conversation>(&record);
  FM_DATA_CHECK(conversation != nullptr, where, ": messages that ask something are required; ",
                "correct the line, or leave out either the messages or the prompt");
  return std::move(*conversation);
}

// The message `system` before those of a conversation that has none.
chat::Conversation told(const std::string& system, chat::Conversation conversation) {
  if (system.empty()) return conversation;
  const jinja::Value* const role = conversation.messages.empty()
                                       ? nullptr
                                       : chat::find_field(conversation.messages.front(), "role");
  const bool has_one = role != nullptr && role->text() != nullptr &&
                       (*role->text() == "system" || *role->text() == "developer");
  if (!has_one) {
    conversation.messages.insert(conversation.messages.begin(), message_of("system", system));
    for (std::size_t& at : conversation.untrained) ++at;
    if (conversation.prompt > 0) ++conversation.prompt;
  }
  return conversation;
}

std::string field_of(const jinja::Value& line, const char* name, const std::string& where) {
  const jinja::Value* found = chat::find_field(line, name);
  FM_DATA_CHECK(found != nullptr && found->text() != nullptr, where, ": an object with the text \"",
                name, "\" is required; correct the line");
  return *found->text();
}

}  // namespace

jinja::Value message_of(const std::string& role, const std::string& content) {
  return jinja::make_dict({{"role", role}, {"content", content}});
}

ModelText::ModelText(const std::filesystem::path& folder, std::int64_t vocab,
                     std::vector<std::int32_t> ends)
    : folder_(folder),
      tokenizer_(tokenizer::open_tokenizer(folder.string())),
      format_(chat::read_chat_format(folder)),
      vocab_(vocab),
      ends_(std::move(ends)) {
  FM_USER_CHECK(tokenizer_->plain_limit() <= vocab,
                "every id of the tokenizer must have a row in the model's embedding; use the "
                "model's own tokenizer (",
                folder.string(), ": ", tokenizer_->plain_limit(), " ids, vocab_size ", vocab, ")");
  const std::vector<tokenizer::TokenId>& named = tokenizer_->special_ids().ends;
  ends_.insert(ends_.end(), named.begin(), named.end());
}

bool ModelText::ends(std::int32_t id) const {
  return std::find(ends_.begin(), ends_.end(), id) != ends_.end();
}

std::vector<std::int32_t> ModelText::with_rows(std::vector<std::int32_t> ids) const {
  const auto beyond = std::ranges::find_if(ids, [this](std::int32_t id) { return id >= vocab_; });
  FM_DATA_CHECK(beyond == ids.end(), "the model has no row for the added token ", *beyond,
                " of its tokenizer; remove that token from the text (", folder_.string(),
                ", vocab_size ", vocab_, ")");
  return ids;
}

std::vector<std::int32_t> ModelText::encode(const std::string& text) const {
  return with_rows(tokenizer_->encode(text));
}

Prompt ModelText::of_text(const std::string& text) const {
  Prompt prompt{.text = text, .ids = encode(text)};
  if (!prompt.ids.empty()) return prompt;
  const tokenizer::SpecialIds& special = tokenizer_->special_ids();
  const bool has_end = special.eos != tokenizer::kNoToken;
  prompt.ids.push_back(has_end ? special.eos : special.bos);
  FM_USER_CHECK(prompt.ids[0] != tokenizer::kNoToken,
                "a prompt of one token or more is required where the tokenizer names neither the "
                "end nor the beginning of a text; give --prompt TEXT (",
                folder_.string(), ")");
  prompt.ids = with_rows(std::move(prompt.ids));
  return prompt;
}

Prompt ModelText::of_conversation(const chat::Conversation& conversation) const {
  FM_USER_CHECK(format_.has_value(),
                "a conversation needs the model's chat template; put chat_template.jinja into the "
                "folder, or give texts without --chat (",
                folder_.string(), ")");
  Prompt prompt{.text = chat::render(conversation, *format_, true, std::time(nullptr)),
                .answers = true};
  prompt.ids = with_rows(tokenizer_->encode(prompt.text, tokenizer::SpecialTokens::kNone));
  FM_DATA_CHECK(!prompt.ids.empty(), "the chat template makes no text of this conversation (",
                folder_.string(), ")");
  return prompt;
}

chat::Conversation ModelText::ask(const std::string& system, const std::string& text) const {
  chat::Conversation conversation;
  if (!system.empty()) conversation.messages.push_back(message_of("system", system));
  conversation.messages.push_back(message_of("user", text));
  return conversation;
}

namespace {

Prompt prompt_of(const TextLine& line, const PromptFile& file, const ModelText& text) {
  std::string words = line.text;
  if (is_jsonl(file.path)) {
    const jinja::Value object = jinja::parse_json(line.text, line.where);
    if (const auto conversation = conversation_of(object, line.where)) {
      return text.of_conversation(told(file.system, *conversation));
    }
    for (const char* name : {"system", "system_prompt", "history"}) {
      const jinja::Value* const beside = chat::find_field(object, name);
      FM_DATA_CHECK(beside == nullptr || !chat::is_filled(*beside), line.where, ": \"", name,
                    "\" has no place beside a prompt that is text; write the line as \"messages\"");
    }
    words = field_of(object, "prompt", line.where);
  }
  return file.chat ? text.of_conversation(text.ask(file.system, words)) : text.of_text(words);
}

}  // namespace

std::vector<Prompt> read_prompts(const PromptFile& file, const ModelText& text) {
  std::vector<Prompt> prompts;
  for (const TextLine& line : lines_of(file.path)) {
    try {
      prompts.push_back(prompt_of(line, file, text));
    } catch (const core::UserError& error) {
      const std::string said = error.what();
      const bool named = said.starts_with(line.where);
      throw core::UserError(error.code(), named ? said : core::concat(line.where, ": ", said));
    }
    const std::int64_t length = std::ssize(prompts.back().ids);
    FM_DATA_CHECK(length <= file.most_ids, line.where,
                  ": a prompt must be shorter than the model's max_position_embeddings; shorten or "
                  "remove it, no prompt of the file was continued (",
                  length, " tokens, max_position_embeddings=", file.most_ids + 1, ")");
  }
  return prompts;
}

std::vector<TextLine> read_texts(const std::string& path) {
  std::vector<TextLine> texts = lines_of(path);
  if (!is_jsonl(path)) return texts;
  for (TextLine& line : texts) {
    line.text = field_of(jinja::parse_json(line.text, line.where), "text", line.where);
  }
  return texts;
}

}  // namespace fm::engine
