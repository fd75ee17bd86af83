// The built-in byte tokenizer (core/byte_ids.h) as the files that transformers and tokenizers
// load: a BPE model without merges over the byte-level alphabet, whose ids are the bytes.
#pragma once

#include <string>
#include <string_view>

namespace fm::checkpoint {

// Says in tokenizer_config.json that the tokenizer is ours.
inline constexpr const char* kTokenizerMarker = "fmengine_tokenizer";

// Whether the text of a tokenizer.json gives every byte, bos, eos and pad the id that ours does,
// and joins no bytes. Other programs may have written it anew.
bool is_byte_tokenizer(std::string_view json);
std::string byte_tokenizer_json();          // tokenizer.json
std::string byte_tokenizer_config_json();   // tokenizer_config.json
std::string byte_generation_config_json();  // generation_config.json: bos, eos, pad

}  // namespace fm::checkpoint
