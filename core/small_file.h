// A small file, read whole: what a user names may be a device or a pipe, which may have no end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/types.h"

namespace fm::core {

// Above what any such file holds.
inline constexpr Bytes kMostConfig{16'000'000};    // a configuration written by hand
inline constexpr Bytes kMostListing{256'000'000};  // names of tensors or words: index, manifest

enum class FileKind : std::uint8_t {
  kRegular,  // nothing else: a file that belongs to a folder
  kAny,      // also /dev/stdin and the pipe that a shell makes of <(...)
};

struct SmallFile {
  std::string text;
  std::string problem;  // "" when the text is whole, else why not: "No such file or directory"
};

// Reads at most `most` bytes, and waits `patience_ms` at most for what comes through a pipe.
SmallFile read_small_file(const std::filesystem::path& path, Bytes most,
                          FileKind kind = FileKind::kRegular, int patience_ms = 60'000);

}  // namespace fm::core
