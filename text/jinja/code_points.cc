#include "text/jinja/code_points.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "text/jinja/value.h"
#include "text/jinja/work_limit.h"

namespace fm::jinja {
namespace {

// One code point at `at`, which moves behind it; false: it is no UTF-8.
bool next_point(std::string_view text, std::size_t& at, char32_t& point) {
  utf8proc_int32_t read = 0;
  const auto rest = static_cast<utf8proc_ssize_t>(text.size() - at);
  const auto length =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at, rest, &read);
  if (length <= 0) return false;
  at += static_cast<std::size_t>(length);
  point = static_cast<char32_t>(read);
  return true;
}

// Ranges of code points whose capital is more than one code point (Unicode's SpecialCasing.txt).
bool has_long_capital(char32_t point) {
  static constexpr char32_t kRanges[][2] = {
      {0xDF, 0xDF},   {0x149, 0x149},   {0x1F0, 0x1F0},   {0x390, 0x390},   {0x3B0, 0x3B0},
      {0x587, 0x587}, {0x1E96, 0x1E9A}, {0x1F50, 0x1F56}, {0x1F80, 0x1FFC}, {0xFB00, 0xFB17},
  };
  return std::any_of(std::begin(kRanges), std::end(kRanges), [&](const char32_t(&range)[2]) {
    return point >= range[0] && point <= range[1];
  });
}

[[noreturn]] void refuse_case(char32_t point) {
  fail("upper and lower case must be one letter each; avoid the case filters on this text (U+",
       std::hex, static_cast<std::uint32_t>(point), ")");
}

char32_t to_upper(char32_t point) {
  if (has_long_capital(point)) refuse_case(point);
  return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(point)));
}

char32_t to_title(char32_t point) {
  if (has_long_capital(point)) refuse_case(point);
  return static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(point)));
}

// The small i of the dotted capital is two code points, the small sigma depends on its neighbours.
char32_t to_lower(char32_t point) {
  if (point == 0x130 || point == 0x3A3) refuse_case(point);
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(point)));
}

bool is_cased(char32_t point) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(point));
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
         category == UTF8PROC_CATEGORY_LT;
}

template <class Body>
std::string map_points(std::string_view text, const Body& body) {
  std::string out;
  out.reserve(text.size());
  for (const char32_t point : decode(text)) append_utf8(out, body(point));
  return out;
}

}  // namespace

bool is_utf8(std::string_view text) {
  char32_t unused = 0;
  std::size_t at = 0;
  while (at < text.size()) {
    if (!next_point(text, at, unused)) return false;
  }
  return true;
}

std::u32string decode(std::string_view text) {
  count_work(sizeof(char32_t) * text.size());
  std::u32string points;
  points.reserve(text.size());
  std::size_t at = 0;
  while (at < text.size()) {
    char32_t point = 0;
    if (!next_point(text, at, point)) fail("text must be UTF-8; correct it (byte ", at, ")");
    points += point;
  }
  return points;
}

void append_utf8(std::string& out, char32_t point) {
  utf8proc_uint8_t bytes[4];
  const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(point), bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(length));
}

std::string encode(std::u32string_view points) {
  std::string out;
  for (const char32_t point : points) append_utf8(out, point);
  return out;
}

std::int64_t count_points(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; });
}

bool is_space(char32_t point) {
  if (point < 0x80) return (point >= 9 && point <= 13) || (point >= 28 && point <= 32);
  return point == 0x85 || point == 0xA0 || point == 0x1680 ||
         (point >= 0x2000 && point <= 0x200A) || point == 0x2028 || point == 0x2029 ||
         point == 0x202F || point == 0x205F || point == 0x3000;
}

bool is_printable(char32_t point) {
  if (point < 0x80) return point >= 0x20 && point != 0x7F;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(point))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return false;
    default: return true;  // letters, marks, numbers, punctuation, symbols
  }
}

std::string upper(std::string_view text) { return map_points(text, to_upper); }

std::string lower(std::string_view text) { return map_points(text, to_lower); }

std::string title(std::string_view text) {
  bool inside = false;
  return map_points(text, [&](char32_t point) {
    const char32_t letter = inside ? to_lower(point) : to_title(point);
    inside = is_cased(point);
    return letter;
  });
}

std::string capitalize(std::string_view text) {
  bool first = true;
  return map_points(text, [&](char32_t point) {
    const char32_t letter = first ? to_title(point) : to_lower(point);
    first = false;
    return letter;
  });
}

std::string_view strip(std::string_view text, Side side) {
  if (side != Side::kRight) {
    std::size_t at = 0;
    std::size_t kept = 0;
    char32_t point = 0;
    while (at < text.size() && next_point(text, at, point) && is_space(point)) kept = at;
    text.remove_prefix(kept);
  }
  if (side == Side::kLeft) return text;
  while (!text.empty()) {
    std::size_t start = text.size() - 1;
    while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
    std::size_t at = start;
    char32_t point = 0;
    if (!next_point(text, at, point) || !is_space(point)) break;
    text = text.substr(0, start);
  }
  return text;
}

std::string strip(std::string_view text, std::string_view characters, Side side) {
  std::u32string wanted = decode(characters);
  std::sort(wanted.begin(), wanted.end());
  const auto stays = [&](char32_t point) {
    return !std::binary_search(wanted.begin(), wanted.end(), point);
  };
  const std::u32string points = decode(text);
  auto begin = points.begin();
  auto end = points.end();
  if (side != Side::kRight) begin = std::find_if(begin, end, stays);
  if (side != Side::kLeft) {
    end = std::find_if(std::make_reverse_iterator(end), std::make_reverse_iterator(begin), stays)
              .base();
  }
  return encode({begin, end});
}

std::size_t find_text(std::string_view text, std::string_view part, std::size_t from) {
  const std::size_t rest = text.size() - from;
  const void* const found = ::memmem(text.data() + from, rest, part.data(), part.size());
  const auto at = found == nullptr
                      ? std::string_view::npos
                      : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
  count_work(kItemBytes + part.size() + (found == nullptr ? rest : at - from));
  return at;
}

std::size_t rfind_text(std::string_view text, std::string_view part) {
  const std::string backwards(text.rbegin(), text.rend());
  const std::string wanted(part.rbegin(), part.rend());
  const std::size_t at = find_text(backwards, wanted);
  return at == std::string_view::npos ? at : text.size() - at - part.size();
}

}  // namespace fm::jinja
