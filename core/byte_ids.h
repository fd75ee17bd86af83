// Ids of the built-in byte vocabulary: one home, because data encodes with them and checkpoint
// writes them down as a Hugging Face tokenizer.
#pragma once

#include <cstdint>

namespace fm::core {

inline constexpr std::int32_t kByteCount = 256;  // ids 0 to 255 are the bytes themselves
inline constexpr std::int32_t kBosId = 256;
inline constexpr std::int32_t kEosId = 257;
inline constexpr std::int32_t kPadId = 258;
inline constexpr std::int32_t kByteVocab = 259;  // smallest vocabulary that holds them all

}  // namespace fm::core
