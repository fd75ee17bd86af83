// How monitors write files and numbers. A write returns the reason when it fails, "" otherwise;
// then the file is as it was.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace fm::monitor {

// Appends `text`, behind `head` where the file is new or empty; makes the folders that it needs.
std::string append_whole(const std::filesystem::path& file, std::string_view head,
                         std::string_view text);

// The shortest text that reads back as the same number.
std::string shortest(double value);

}  // namespace fm::monitor
