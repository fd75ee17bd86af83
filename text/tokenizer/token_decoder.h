// Decoders of tokenizer.json: what makes a text of tokens.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "text/tokenizer/tokenizer_file.h"

namespace fm::tokenizer {

// Reads tokens and leaves others; in the end they are written one behind the other.
using DecodeStep = std::function<void(std::vector<std::string>& tokens)>;

// The steps of a component, sequences unfolded. `settings` null: a space stands between tokens.
// Throws UserError (11) naming a component that is not supported.
std::vector<DecodeStep> read_decoder(const JsonTree* settings);

// Runs of tokens <0x00>.. become their bytes, or one U+FFFD each where these are no UTF-8.
void decode_byte_fallback(std::vector<std::string>& tokens);

}  // namespace fm::tokenizer
