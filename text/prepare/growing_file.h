// A new file that is written at its end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace fm::prepare {

// Invariant: on the disk is what sync() has seen.
// Thread:    one.
// Lifetime:  owns the descriptor; the file stays.
class GrowingFile {
 public:
  // `path` must not exist. Throws MachineError (26) with path and cause, as everything here.
  explicit GrowingFile(std::filesystem::path path);
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;
  ~GrowingFile();

  template <class T>
  void put(std::span<const T> values) {
    put_bytes(std::as_bytes(values));
  }
  template <class T>
  void put_one(T value) {
    put(std::span<const T>(&value, 1));
  }
  void flush();
  void sync();
  const std::filesystem::path& path() const { return path_; }

 private:
  void put_bytes(std::span<const std::byte> bytes);
  [[noreturn]] void fail(const char* action) const;

  std::filesystem::path path_;
  int fd_;
  std::vector<std::byte> buffer_;
};

}  // namespace fm::prepare
