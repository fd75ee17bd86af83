// Tokens that a run adds to its tokenizer (--add_tokens, --eos_token).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/files/file_texts.h"
#include "engine/options.h"

namespace fm::engine {

struct RunTokens {
  core::FileTexts texts = {};  // files of the tokenizer's folder that are others with them
  std::int64_t ids = 0;        // rows that the tokenizer then needs; 0: nothing is added
  std::int64_t eos = -1;       // the id of --eos_token
  // The ids of --add_tokens that the tokenizer lacked, ascending.
  std::vector<std::int64_t> added = {};
};

// What the words decide, of any folder of a tokenizer.
struct TokenWords {
  std::filesystem::path folder;
  std::filesystem::path chat_template = {};
  std::vector<std::string> add_tokens = {};
  std::string eos_token = {};
  // Of the weights: its generation_config.json is changed where the tokenizer's folder has none.
  std::filesystem::path weights = {};
};
RunTokens read_tokens(const TokenWords& words);

// The same of a run. Throws UserError (10) where there is no folder of a tokenizer to extend.
RunTokens tokens_of(const TrainOptions& options);

// Beside adapters the rows of added tokens are trained, too, where --modules_to_save names neither
// the embedding nor the head. Throws UserError (10) where it names one of two, or the adapters to
// go on from train other rows.
void choose_token_rows(TrainOptions& options);

// "": the chat template writes no marker that the tokenizer would cut into pieces.
std::string note_of_markers(const TrainOptions& options);

}  // namespace fm::engine
