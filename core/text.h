// Small text tools for messages.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"

namespace fm::core {

std::string join(std::span<const std::string> parts, std::string_view separator);
std::vector<std::string> split(std::string_view text, char separator);  // empty parts kept
std::string lower(std::string_view text);
// Without the UTF-8 byte order mark that editors and spreadsheets of Windows put first.
std::string_view without_byte_order_mark(std::string_view text);
// The first 300 bytes or so of a text that stands in a message, whole characters, then "...".
std::string shortened(std::string_view text);

// Levels of brackets that a JSON file may have, where its values are copied, compared or written:
// these take a stack frame for each level.
inline constexpr int kMostBrackets = 100;
// Whether JSON text has no more levels; of other text it says nothing.
bool is_shallow(std::string_view json);

// "1.2 GB", "340.0 MB": decimal units, for people.
std::string human(Bytes bytes);
// "5.1 M", "1.2 B": for people.
std::string human_count(double count);
// "1h02m", "3m05s", "12s", "2d03h", "0.42s", "3.1ms": for people.
std::string human_duration(double seconds);
// "-1,234,567" of "-1234567": the text of a whole number.
std::string grouped(std::string digits);
// The candidate with the smallest edit distance, or "" when none is near (more than a third of
// the word differs). For "did you mean".
std::string nearest(std::string_view word, std::span<const std::string> candidates);
// The candidate that `word` was surely meant to be: at most a fifth of it differs, and at most two
// letters; "" when there is none.
std::string misspelt(std::string_view word, std::span<const std::string> candidates);

// Ids of the built-in byte vocabulary: one home, because data encodes with them and checkpoint
// writes them down as a Hugging Face tokenizer.
inline constexpr std::int32_t kByteCount = 256;  // ids 0 to 255 are the bytes themselves
inline constexpr std::int32_t kBosId = 256;
inline constexpr std::int32_t kEosId = 257;
inline constexpr std::int32_t kPadId = 258;
inline constexpr std::int32_t kByteVocab = 259;  // smallest vocabulary that holds them all

}  // namespace fm::core
