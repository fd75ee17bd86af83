// Changes of JSON text that leave all else as it is written: a large file keeps its order and its
// numbers, and who compares the two sees the change alone.
#pragma once

#include <string>
#include <string_view>

namespace fm::core {

// `object` is the text of a JSON object, which somebody has read. Its member `key` (of several the
// last) gets the JSON text `value`; where it is not there, it becomes the last one.
std::string with_member(std::string_view object, std::string_view key, std::string_view value);
// Without that member.
std::string without_member(std::string_view object, std::string_view key);

// The JSON text of a string.
std::string json_string(std::string_view text);

}  // namespace fm::core
