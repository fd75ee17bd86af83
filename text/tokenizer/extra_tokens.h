// Tokens that a run adds to a tokenizer, as transformers' add_special_tokens does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/files/file_texts.h"

namespace fm::tokenizer {

class Tokenizer;

struct ExtraTokens {
  // Special ones. A token that the tokenizer has keeps its id, the others follow the last one.
  std::vector<std::string> tokens = {};
  std::string eos = {};  // what eos_token shall be; "": as it is

  bool none() const { return tokens.empty() && eos.empty(); }
};

// The files of the folder that are others with these tokens: what it needs for the same ids in
// transformers. generation_config.json also ends a text at a new eos_token. Throws UserError (10)
// for an eos_token that is no token, (11) for files that are wrong.
core::FileTexts with_tokens(const std::filesystem::path& folder, const ExtraTokens& extra);

// The text of generation_config.json, where a text ends at `end`, too. `given`: its text; "": there
// is none, and the new one says of the tokenizer `before` what transformers takes from config.json.
std::string with_end(const std::string& given, std::int64_t end, const Tokenizer& before);

}  // namespace fm::tokenizer
