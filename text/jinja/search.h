// Searches in texts whose time is linear whatever the texts are.
#pragma once

#include <cstddef>
#include <string_view>

namespace fm::jinja {

// As std::string_view::find and rfind; std's compare each place of `text` with all of `part`.
std::size_t find_text(std::string_view text, std::string_view part, std::size_t from = 0);
std::size_t rfind_text(std::string_view text, std::string_view part);

}  // namespace fm::jinja
