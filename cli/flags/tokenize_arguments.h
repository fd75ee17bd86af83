// fmengine-tokenize's command line.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "text/prepare/write_tokens.h"

namespace fm::cli {

struct TokenizeCommand {
  bool help = false;
  bool version = false;
  std::string tokenizer;
  std::string chat_template;
  std::string text_field;
  bool text_first = false;  // text_field was given
  bool train_on_inputs = false;
  std::optional<int> threads;  // else by the cores
  prepare::WriteOptions options;
};

// Words without the program's name. Throws UserError (10).
TokenizeCommand parse_tokenize_command(std::span<const std::string> words);

std::string tokenize_help_text();

}  // namespace fm::cli
