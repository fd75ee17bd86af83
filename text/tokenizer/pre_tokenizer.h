// Pre-tokenizers of tokenizer.json: what cuts a normalised text into words.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/pieces.h"
#include "text/tokenizer/scanners.h"
#include "text/tokenizer/tokenizer_file.h"

namespace fm::tokenizer {

// What becomes of the parts that a pattern matches, and of those between.
enum class Behavior : std::uint8_t {
  kRemoved,             // matches go
  kIsolated,            // every part is a piece
  kMergedWithPrevious,  // a match belongs to the part before it
  kMergedWithNext,      // or behind it
  kContiguous,          // neighbours that both match are one piece
};

// Appends the parts of a text to `found`, as Regex::find_all does.
using FindParts = std::function<void(std::string_view text, std::vector<Match>& found)>;

// The pattern of a Split or Replace, {"String": ..} or {"Regex": ..}.
FindParts read_pattern(const JsonTree& pattern);
// A scanner's matches, with what stands between them.
FindParts find_by(Scanner scanner);
// Each character that `wanted` accepts is a match.
FindParts find_characters(bool (*wanted)(char32_t));

SplitStep split_by(FindParts find, Behavior behavior);

struct PreTokenizer {
  std::vector<SplitStep> steps;
  // The last step is ByteLevel and has been left out: the model reads the bytes themselves.
  bool byte_level = false;
};

// `settings` null: none. `may_leave_bytes`: the model can read bytes where ByteLevel comes last.
// Throws UserError (11) naming a component that is not supported.
PreTokenizer read_pre_tokenizer(const JsonTree* settings, bool may_leave_bytes);

// GPT-2's printable characters for bytes: bytes 33-126, 161-172 and 174-255 stand for themselves,
// the others for U+0100, U+0101, ..
char32_t byte_character(unsigned char byte);
// The byte of such a character, -1 for others.
int character_byte(char32_t value);
void append_byte_level(std::string& text, std::string_view bytes);

}  // namespace fm::tokenizer
