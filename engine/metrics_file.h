// A file of lines that a kill or a full disk at any moment leaves whole.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace fm::engine {

// Invariant: every line in the file was appended whole; a torn end, which a kill left, is cut off
//            when the file is opened, and what could not be written whole is taken back. A file
//            that was deleted or renamed is made anew.
// Thread:    one thread; one process at a time (the lock of the output directory).
// Lifetime:  owns the descriptor.
class MetricsFile {
 public:
  // Throws MachineError (26) when the file cannot be opened for writing.
  explicit MetricsFile(std::filesystem::path path);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  // `line` without its end. Returns the reason when it could not be written, "" otherwise.
  std::string append(const std::string& line);

 private:
  int open_named() const;
  off_t end_of_last_line() const;

  std::filesystem::path path_;
  int fd_ = -1;
  off_t end_ = 0;  // behind the last whole line
};

}  // namespace fm::engine
