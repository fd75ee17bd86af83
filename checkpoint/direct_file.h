// Large reads that ask the disk, not the memory that was kept of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace fm::checkpoint {

// Invariant: reads go past the page cache (O_DIRECT) where the file system can; elsewhere through
//            it, and the pages are given back.
// Thread:    one.
// Lifetime:  what read() returned is valid until the next one.
class DirectFile {
 public:
  static constexpr std::int64_t kMostBytes = std::int64_t{16} << 20;  // of one read

  // MachineError (12) with path and cause: it is missing, no regular file, or may not be read.
  explicit DirectFile(const std::filesystem::path& path);
  DirectFile(const DirectFile&) = delete;
  DirectFile& operator=(const DirectFile&) = delete;
  ~DirectFile();

  std::int64_t size() const { return size_; }
  // `bytes` of them at most kMostBytes. MachineError (12) where the disk or the end of the file
  // says no.
  std::span<const std::byte> read(std::int64_t offset, std::int64_t bytes);
  // The CRC-32C of a part of any length.
  std::uint32_t crc_of(std::int64_t offset, std::int64_t bytes);

 private:
  struct FreeBlock {
    void operator()(std::byte* block) const { std::free(block); }
  };

  std::string path_;
  int fd_ = -1;
  bool direct_ = true;
  std::int64_t size_ = 0;
  std::unique_ptr<std::byte, FreeBlock> block_;
};

}  // namespace fm::checkpoint
