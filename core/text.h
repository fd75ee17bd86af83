// Text tools for messages and words; the ids of the byte vocabulary.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/check.h"
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

// Numbers with what they count.

// "1 row", "2 rows"
template <class Count>
std::string counted(Count count, std::string_view noun) {
  return concat(count, ' ', noun, count == Count{1} ? "" : "s");
}

// Numbers on a command line, as Python and C read them: "0.", ".5", "+0.1", "1.e-2", "007", and
// "1_000" as Python alone. Not "nan", "inf", hexadecimal ones, or those beyond the type.

std::optional<double> number_of(std::string_view word);
std::optional<std::int64_t> integer_of(std::string_view word);

}  // namespace fm::core
