// A model folder whose tokenizer has more tokens, and what a chat template expects of tokens.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/files/file_texts.h"
#include "text/tokenizer/extra_tokens.h"

namespace fm::prepare {

// A folder of a tokenizer, and a chat template instead of its own, or "".
struct ChatFolder {
  std::filesystem::path folder;
  std::filesystem::path template_file = {};
};

// tokenizer::with_tokens; generation_config.json also ends a text at the token with which the chat
// template ends a turn. Nothing where there are no tokens to add.
core::FileTexts extended_folder(const ChatFolder& at, const tokenizer::ExtraTokens& extra);

// What the chat template writes as if it were a token ("<|im_start|>"), and the tokenizer, with
// these texts of its files, cuts into pieces; in the order of a conversation. Empty where there is
// no template, or it refuses a short conversation.
std::vector<std::string> markers_without_token(const ChatFolder& at, const core::FileTexts& texts);

}  // namespace fm::prepare
