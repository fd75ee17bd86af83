#include "text/data/array_lines.h"

#include <algorithm>

#include "core/check.h"
#include "core/text.h"

namespace fm::data {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

bool is_blank(std::string_view text) {
  return core::without_byte_order_mark(text).find_first_not_of(kSpace) == std::string_view::npos;
}

}  // namespace

bool begins_array(std::string_view text) {
  text = core::without_byte_order_mark(text);
  const std::size_t first = text.find_first_not_of(kSpace);
  return first != std::string_view::npos && text[first] == '[';
}

std::string_view ArrayLines::put(std::string_view piece) {
  if (piece.empty()) {
    FM_DATA_CHECK(state_ != State::kInside, path_,
                  ": a JSON array must end with ']'; the file ends too early, get it again");
    return piece;
  }
  if (state_ == State::kBefore && begins_array(piece)) state_ = State::kInside;
  if (state_ == State::kBefore && !is_blank(piece)) state_ = State::kOther;
  if (state_ == State::kBefore) line_ += std::ranges::count(piece, '\n');
  if (state_ == State::kBefore || state_ == State::kOther) return piece;
  bytes_.assign(piece.begin(), piece.end());
  for (char& byte : bytes_) byte = put(byte);
  return {bytes_.data(), bytes_.size()};
}

void ArrayLines::put_outermost(char byte) {
  if (kSpace.find(byte) != std::string_view::npos) {
    if (element_ == Element::kWord) element_ = Element::kWhole;
    return;
  }
  if (byte == ']' || byte == '}') return;
  if (byte == ',') {
    element_ = Element::kNone;
    ++number_;
    return;
  }
  const bool word = byte != '"' && byte != '[' && byte != '{';
  const bool goes_on = word && element_ == Element::kWord;
  FM_DATA_CHECK(goes_on || element_ == Element::kNone, path_, ":", line_,
                ": a comma is required behind element ", number_,
                " of the JSON array; correct the file, or the '[' it begins with if it is JSONL");
  element_ = word ? Element::kWord : Element::kWhole;
}

char ArrayLines::put(char byte) {
  if (state_ == State::kBehind) return byte;
  if (byte == '\n') ++line_;
  if (!in_text_ && depth_ == 1) put_outermost(byte);
  if (in_text_) {
    in_text_ = escaped_ || byte != '"';
    escaped_ = !escaped_ && byte == '\\';
    return byte;
  }
  switch (byte) {
    case '"': in_text_ = true; return byte;
    case '\n': return ' ';
    case ',': return depth_ == 1 ? '\n' : byte;
    case '[':
    case '{': return ++depth_ == 1 ? ' ' : byte;
    case ']':
    case '}':
      if (--depth_ > 0) return byte;
      state_ = State::kBehind;
      return ' ';
    default: return byte;  // any other character of an element
  }
}

}  // namespace fm::data
