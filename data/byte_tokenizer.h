// The built-in tokenizer: the UTF-8 bytes of a text are its ids (core/byte_ids.h). No merges, no
// normalisation, nothing added: decode(encode(text)) == text for every text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/byte_ids.h"

namespace fm::data {

std::vector<std::int32_t> encode_bytes(std::string_view text);
// Special ids and ids beyond the byte vocabulary decode to nothing.
std::string decode_bytes(std::span<const std::int32_t> ids);

}  // namespace fm::data
