// How a line of text becomes documents of token ids, by the tokenizer and the chat template of a
// model folder.
#pragma once

#include <cstdint>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "text/chat/model_folder.h"
#include "text/prepare/prepare_text.h"
#include "text/tokenizer/tokenizer.h"

namespace fm::prepare {

struct TextOptions {
  std::string text_field = "text";
  bool text_first = false;                 // the user named the field: it comes before other forms
  bool train_on_inputs = false;            // prompts count, too, and all turns of conversations
  std::optional<bool> train_prompts = {};  // of completions alone
  std::optional<bool> train_turns = {};    // of conversations alone
  data::Columns columns = {};              // what they mean, before a form is recognised
  std::time_t now = 0;                     // what a template prints as today
  std::string template_identity = "none";  // of the chat template
  core::FileTexts texts = {};              // of files of the folder, instead of the disk's
};

// A line is one JSON object of these forms, known by its fields; the first that fits counts:
//
//   {"messages": [...]}, {"conversations": [...]}   chat: the template's text; answers are trained
//   {"prompt": ..., "completion": ...}     the completion and EOS are trained
//   {"instruction", "input", "output"}     the same, in Stanford Alpaca's words
//   {"text": "..."}                        the text, then EOS where it does not end with it
//   {"segments": [{"text", "label"}]}      texts as they are; those with label true are trained
//
// `options.text_field` names the field of the text. A field that is null is not there. Without a
// `format`, chat is refused.
Recipe make_recipe(std::shared_ptr<const tokenizer::Tokenizer> tokenizer,
                   std::shared_ptr<const chat::ChatFormat> format, const TextOptions& options);

// The same of files: `tokenizer` is a model folder or one of its files, `template_file` a chat
// template instead of the folder's, or "". Throws UserError (11) naming the file that is wrong.
Recipe read_recipe(const std::filesystem::path& tokenizer,
                   const std::filesystem::path& template_file, TextOptions options);

// The recipe for a model of `vocab` rows: a line with an id that has none is a bad line.
Recipe within(Recipe recipe, std::int64_t vocab);

// JSONL that needs no tokenizer of a folder, in the words of prepare_text.

// {"input_ids": [...], "labels": [...], "attention_mask": [...]}, see data::ids_reader.
Recipe id_recipe(std::int64_t vocab, const data::Columns& columns = {});

// The bytes of the text in `field`, see data::text_reader.
Recipe byte_recipe(const std::string& field, const data::Columns& columns = {});

}  // namespace fm::prepare
