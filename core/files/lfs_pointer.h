// What git leaves of a large file that git-lfs has not fetched: a few lines that name its content
// (the specification of git-lfs, version 1).
#pragma once

#include <string_view>

namespace fm::core {

inline constexpr const char* kIsLfsPointer =
    "it is a pointer of Git LFS; fetch the file with git lfs pull, or get it again";

inline bool is_lfs_pointer(std::string_view text) {
  return text.starts_with("version https://git-lfs.github.com/spec/");
}

}  // namespace fm::core
