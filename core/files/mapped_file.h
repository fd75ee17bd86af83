// A whole file, read-only in memory.
//
// Invariant: bytes() is the file as it was opened, unless somebody writes to it; zeros where it
//            was cut.
// Thread:    any.
// Lifetime:  spans die with the object; move-only.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "core/files/cut_guard.h"

namespace fm::core {

class MappedFile {
 public:
  MappedFile() = default;
  // Throws UserError (11) naming the file when it is missing, unreadable or no regular file.
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // The process keeps no page that lies within `part` in memory; whoever reads it again, reads the
  // file again.
  void let_go(std::span<const std::byte> part) const noexcept;
  // Throws UserError (11) when the file has been written since it was opened: what is read now is
  // not what was checked then, and beyond a new end there is nothing. Another file of its name does
  // no harm.
  void check_unchanged() const;
  // Throws UserError (11) when zeros were read since the file was cut. Cheap; whoever reads asks
  // afterwards, before anything follows from what was read.
  void check_uncut() const;
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  void release() noexcept;

  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::string path_;
  struct stat opened_ {};
  CutGuard guard_;
};

}  // namespace fm::core
