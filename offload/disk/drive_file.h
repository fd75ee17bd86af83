// The file of a rank on one drive.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "core/types.h"
#include "offload/disk/disk_engine.h"

namespace fm::offload {

struct FileSpec {
  int world_rank = 0;
  std::string_view run;  // both are a part of the name, until the file has lost it
  core::Bytes bytes;
};

// Has all its blocks and no name: whatever ends the process, its bytes are free again.
//
// Invariant: owns one descriptor of a file of the size that was asked for.
// Thread:    any, as the system does.
// Lifetime:  move-only.
class DriveFile {
 public:
  // Removes what dead runs left in `folder`, and makes the folder where it is missing. Throws
  // MachineError (26).
  DriveFile(const std::filesystem::path& folder, const FileSpec& spec);
  DriveFile(DriveFile&& other) noexcept;
  DriveFile& operator=(DriveFile&&) = delete;
  ~DriveFile();

  int fd() const { return fd_; }
  // Asks the system to move past the page cache, and tries it with a page.
  Cache go_past_cache();
  std::string folder() const { return folder_.string(); }

 private:
  std::filesystem::path folder_;
  int fd_ = -1;
};

}  // namespace fm::offload
