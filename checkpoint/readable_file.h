// A file of a checkpoint, read in place; and what it means when one cannot be read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "comm/agree.h"
#include "core/check.h"

namespace fm::checkpoint {

// Of an errno: kNoCheckpoint where the same read fails again until somebody mends the files (a
// missing file, permissions), kStorageFailed where a disk or its mount failed (EIO, ESTALE): then
// nobody knows whether the checkpoint is good, and none may be taken in its place.
core::ExitCode code_of_read(int error);
// MachineError of this code. `what` names the file and what was read.
[[noreturn]] void throw_unread(const std::string& what, int error);

struct ReadFailure {
  std::string problem;  // "": none
  core::ExitCode code = core::ExitCode::kNoCheckpoint;
};

// Runs `body`, which reads, and returns its error. A BugError is not caught.
template <class Body>
ReadFailure attempt_read(const Body& body) {
  ReadFailure failure;
  failure.problem = comm::attempt([&] {
    try {
      body();
    } catch (const core::Error& error) {
      failure.code = error.code();
      throw;
    } catch (const std::filesystem::filesystem_error& error) {
      failure.code = code_of_read(error.code().value());
      throw;
    }
  });
  return failure;
}

// Invariant: owns one descriptor. Reads by pread: a bad disk is an error message, not a signal.
// Thread:    any.
class ReadableFile {
 public:
  explicit ReadableFile(const std::filesystem::path& path);  // MachineError, as throw_unread
  ReadableFile(const ReadableFile&) = delete;
  ReadableFile& operator=(const ReadableFile&) = delete;
  ~ReadableFile();

  // All of `bytes`; MachineError, (12) where the file ends before.
  void read(std::int64_t offset, std::span<std::byte> bytes) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int fd_;
};

}  // namespace fm::checkpoint
