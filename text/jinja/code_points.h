// Text by code points, as Python counts it; in and out is UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace fm::jinja {

bool is_utf8(std::string_view text);
// Text must be UTF-8.
std::u32string decode(std::string_view text);
std::string encode(std::u32string_view points);
void append_utf8(std::string& out, char32_t point);
std::int64_t count_points(std::string_view text);

// str.isspace(), str.isprintable() of one code point.
bool is_space(char32_t point);
bool is_printable(char32_t point);

// str.upper(), lower(), title(), capitalize(). They refuse the hundred code points whose other case
// is several code points or depends on neighbours.
std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string title(std::string_view text);
std::string capitalize(std::string_view text);

enum class Side : std::uint8_t { kLeft, kRight, kBoth };
// str.strip(): whitespace.
std::string_view strip(std::string_view text, Side side);
// str.strip(chars).
std::string strip(std::string_view text, std::string_view characters, Side side);

// Searches in texts whose time is linear whatever the texts are.

// As std::string_view::find and rfind; std's compare each place of `text` with all of `part`.
std::size_t find_text(std::string_view text, std::string_view part, std::size_t from = 0);
std::size_t rfind_text(std::string_view text, std::string_view part);

}  // namespace fm::jinja
