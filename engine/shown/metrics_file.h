// A file of lines that a kill or a full disk at any moment leaves whole.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace fm::engine {

// What keep_until found.
struct KeptRows {
  std::int64_t rows = 0;        // that stay
  std::int64_t cut = 0;         // that went to the other file
  std::string missing = {};     // "3, 7 to 9": steps from 1 on that have no row
  std::string problem = {};     // why nothing was cut, or ""
  std::string last_start = {};  // the newest {"start": ...} line, and the last rows behind it
};

// Rows are lines that begin with {"step": N; other lines stay what and where they are.
//
// Invariant: every line in the file was appended whole; a torn end, which a kill left, is cut off
//            when the file is opened, and what could not be written whole is taken back. A file
//            that was deleted or renamed is made anew.
// Thread:    one thread, but for what sync_later() gives; one process at a time (the lock of the
//            output directory).
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

  // A run goes on behind `last_step`: rows of later steps, and of a step all but the last one, move
  // to the end of <stem>.replaced.jsonl beside it. Does nothing where the name leads to a device.
  KeptRows keep_until(std::int64_t last_step);
  // Puts the lines of now on the disk, in any thread and when this may be gone. Returns the reason
  // when that fails, "" otherwise.
  std::function<std::string()> sync_later() const;

 private:
  bool reopen();
  int open_named() const;
  off_t end_of_last_line() const;

  std::filesystem::path path_;
  int fd_ = -1;
  off_t end_ = 0;  // behind the last whole line
};

}  // namespace fm::engine
