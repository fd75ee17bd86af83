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
  // UserError (11) naming the file where an array has no end.
  std::string_view put(std::string_view piece);

 private:
  enum class State : std::uint8_t { kBefore, kOther, kInside, kBehind };

  char put(char byte);

  std::string path_;
  State state_ = State::kBefore;
  int depth_ = 0;            // of lists and objects, the array itself one
  bool in_text_ = false;     // between quotes
  bool escaped_ = false;     // behind a backslash
  std::vector<char> bytes_;  // of the piece
};

}  // namespace fm::data
