// One JSON array as JSONL: datasets are also spread as [{...}, {...}] over many lines, and readers
// of JSONL take an element of such an array for a line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fm::data {

// Whether a text that begins so is an array: what is first, behind a byte order mark and white
// space, is '['.
bool begins_array(std::string_view text);

// Invariant: as many bytes come out as go in. Of an array, the commas between elements become line
// ends, line ends and the array's own brackets spaces; element k is line k. Any other text comes
// out as it is.
// Thread:    one.
class ArrayLines {
 public:
  explicit ArrayLines(std::string path) : path_(std::move(path)) {}

  // The next piece of the text; an empty one is its end. Valid until the next call. Throws
  // UserError (11) naming the file where an array has no end, and its line where an element begins
  // behind another one without a comma: of JSONL behind such a line all would be one element.
  std::string_view put(std::string_view piece);

 private:
  enum class State : std::uint8_t { kBefore, kOther, kInside, kBehind };
  // Of the array, where the text is at depth 1: no character of one, a number or word, a whole one.
  enum class Element : std::uint8_t { kNone, kWord, kWhole };

  char put(char byte);
  void put_outermost(char byte);

  std::string path_;
  State state_ = State::kBefore;
  Element element_ = Element::kNone;
  std::int64_t line_ = 1;    // of the file
  std::int64_t number_ = 1;  // of the element
  int depth_ = 0;            // of lists and objects, the array itself one
  bool in_text_ = false;     // between quotes
  bool escaped_ = false;     // behind a backslash
  std::vector<char> bytes_;  // of the piece
};

}  // namespace fm::data
