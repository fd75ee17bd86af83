// What is in a file, by numbers that a second start need not read the file for.
#pragma once

#include <ctime>
#include <filesystem>
#include <string>

namespace fm::prepare {

// 16 hexadecimal digits of the file's bytes, packed or not. They are noted in `cache_dir`: while
// the path leads to the same inode of the same size and times, they are not computed anew; `now` is
// the time, by which a file that was just written is not noted. Throws UserError (11) when the file
// cannot be read.
std::string content_of(const std::string& path, const std::filesystem::path& cache_dir,
                       std::time_t now = std::time(nullptr));

// 16 hexadecimal digits.
std::string hex_of(std::uint64_t number);

}  // namespace fm::prepare
