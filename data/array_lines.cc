#include "data/array_lines.h"

#include "core/check.h"

namespace fm::data {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::string_view kSpace = " \t\r\n";

std::string_view behind_mark(std::string_view text) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return text;
}

bool is_blank(std::string_view text) {
  return behind_mark(text).find_first_not_of(kSpace) == std::string_view::npos;
}

}  // namespace

bool begins_array(std::string_view text) {
  text = behind_mark(text);
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
  if (state_ == State::kBefore || state_ == State::kOther) return piece;
  bytes_.assign(piece.begin(), piece.end());
  for (char& byte : bytes_) byte = put(byte);
  return {bytes_.data(), bytes_.size()};
}

char ArrayLines::put(char byte) {
  if (state_ == State::kBehind) return byte;
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
