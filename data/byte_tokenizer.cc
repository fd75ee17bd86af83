#include "data/byte_tokenizer.h"

namespace fm::data {

std::vector<std::int32_t> encode_bytes(std::string_view text) {
  std::vector<std::int32_t> ids(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) ids[i] = static_cast<std::uint8_t>(text[i]);
  return ids;
}

std::string decode_bytes(std::span<const std::int32_t> ids) {
  std::string text;
  text.reserve(ids.size());
  for (const std::int32_t id : ids) {
    if (id >= 0 && id < core::kByteCount) text.push_back(static_cast<char>(id));
  }
  return text;
}

}  // namespace fm::data
