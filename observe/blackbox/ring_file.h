// The files of black boxes (core/blackbox/black_box.h), as whatever ended the ranks has left them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "observe/blackbox/divergence.h"

namespace fm::blackbox {

struct RingFile {
  std::string run, host, boot, program;
  int world_rank = 0;
  int world_size = 1;
  std::int64_t pid = 0;
  std::int64_t process_start = 0;
  std::int64_t unix_ns = 0, steady_ns = 0;  // of one moment
  std::optional<int> exit_code;             // absent: the rank has not ended by itself
  BoxView view;                             // records in their order
  std::size_t torn = 0;                     // records that are not whole
  std::optional<core::BoxRecord> place;     // the phase or instruction that is open
  std::optional<core::BoxRecord> waiting;   // the verb that the rank is inside of

  // Of a time in its records.
  std::int64_t unix_of(std::int64_t ns) const {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(unix_ns) +
                                     static_cast<std::uint64_t>(ns) -
                                     static_cast<std::uint64_t>(steady_ns));
  }
};

// Throws UserError (11) naming the file where it is no black box.
RingFile read_ring(const std::filesystem::path& path);

// The rings of one start, by rank.
struct RingFolder {
  std::vector<RingFile> rings;
  std::vector<std::string> problems;  // of files that are left out, a sentence each
};
// `folder`: an output folder, or its blackbox/. The start is the newest; `before`: the one before.
// Throws UserError (11) where no file is a black box.
RingFolder read_rings(const std::filesystem::path& folder, bool before);

enum class ProcessLife : std::uint8_t { kLives, kStopped, kGone, kElsewhere };
// As this host sees it now; kElsewhere: the ring is of another one, or of another boot.
ProcessLife life_of(const RingFile& ring);

}  // namespace fm::blackbox
