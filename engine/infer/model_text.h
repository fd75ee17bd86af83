// Text as a model reads it: the tokenizer and the chat template of a folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/chat/conversation.h"
#include "text/chat/model_folder.h"
#include "text/tokenizer/tokenizer.h"

namespace fm::engine {

struct Prompt {
  std::string text;  // as the model reads it, special tokens of a template included
  std::vector<std::int32_t> ids = {};  // one or more
  bool answers = false;                // what follows is an answer, a text of its own
};

// Invariant: every id is below `vocab`.
// Thread:    one thread.
class ModelText {
 public:
  // `folder` has the files of a tokenizer, and may have a chat template. Throws UserError (10, 11).
  // `ends`: ids that end a text, beside those that the folder names.
  ModelText(const std::filesystem::path& folder, std::int64_t vocab,
            std::vector<std::int32_t> ends = {});

  const tokenizer::Tokenizer& tokenizer() const { return *tokenizer_; }
  bool ends(std::int32_t id) const;

  // Special tokens as the tokenizer adds them. Nothing: what stands before a text, which is the end
  // of another one, else its beginning.
  Prompt of_text(const std::string& text) const;
  // By the chat template, with the header of an answer at the end. Throws UserError (10) where
  // there is no template, (11) where it refuses the conversation.
  Prompt of_conversation(const chat::Conversation& conversation) const;
  // An optional system message, and the user's.
  chat::Conversation ask(const std::string& system, const std::string& text) const;

  // Ids of a text that stands alone, as models are trained with it. As above, UserError (11) for a
  // token that the model has no row for.
  std::vector<std::int32_t> encode(const std::string& text) const;

 private:
  std::vector<std::int32_t> with_rows(std::vector<std::int32_t> ids) const;

  std::filesystem::path folder_;
  std::unique_ptr<const tokenizer::Tokenizer> tokenizer_;
  std::optional<chat::ChatFormat> format_;
  std::int64_t vocab_;
  std::vector<std::int32_t> ends_;
};

jinja::Value message_of(const std::string& role, const std::string& content);

// One prompt a line. *.jsonl (or .json): {"prompt": TEXT}, or a conversation as
// chat::Conversation describes it ("messages", "conversations", or a "prompt" that is a list); else
// a line is the text. `chat`: a text is what a user says, after the message `system`, which also
// comes before messages without one. Throws UserError (11) with file and line.
struct PromptFile {
  std::string path;
  bool chat = false;
  std::string system = {};
  // A longer prompt is refused.
  std::int64_t most_ids = std::numeric_limits<std::int64_t>::max();
};
std::vector<Prompt> read_prompts(const PromptFile& file, const ModelText& text);

struct TextLine {
  std::string text;
  std::string where;  // "texts.jsonl:7"
};

// The texts of a file, one a line: {"text": TEXT} where it is *.jsonl, else the line.
std::vector<TextLine> read_texts(const std::string& path);

}  // namespace fm::engine
