// A file that a program makes because a flag names it.
#pragma once

#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

namespace fm::core {

// A regular file appears whole, or stays what it was. It is written beside its place as
// .tmp-NAME-<8 hex>, which this process locks, and takes its name by rename, its owner and mode
// those of the file before it. A link is followed: it stays, and what it leads to is written.
// What is no regular file (a device, a pipe, a terminal) is written through, never replaced.
//
// Invariant: until finish() said "", a regular file of this name is as it was before.
// Thread:    one.
// Lifetime:  removes what is unfinished; what a killed process left goes with the next one.
class OutputFile {
 public:
  // error() says whether it can be written. A pipe without a reader is waited for.
  explicit OutputFile(std::filesystem::path path, int patience_ms = 0);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  int error() const { return error_; }  // of errno; 0: none so far
  void add(std::string_view text);      // a failure shows in error() and finish()
  // Gives the file its name. "" or what is wrong.
  std::string finish();

 private:
  void open_draft();
  void open_through(int patience_ms);
  void take(int fd);

  std::filesystem::path path_;   // behind links
  std::filesystem::path draft_;  // "": written through
  std::FILE* file_ = nullptr;
  int error_ = 0;
};

// The same at once: "" or what is wrong.
std::string write_output_file(const std::filesystem::path& path, std::string_view text);

// What a file is called in messages, and the flag that names it.
struct OutputName {
  std::string what;  // "page"
  std::string flag;  // "--out"
};

// Throws where errno is not 0: UserError (10) where another place would do, MachineError (26) where
// the disk is read-only, full or broken.
void check_output(const OutputName& name, const std::filesystem::path& path, int error);

// Where the links at the end of a path lead; the place may be empty.
std::filesystem::path behind_links(std::filesystem::path path);

// Names of what is not finished.

// Eight random hexadecimal digits: tells temporary names of different runs apart.
std::string random_tag();
// Whether `name` is a temporary or trash name made here (prefix and the eight digits).
bool is_leftover(std::string_view name);

}  // namespace fm::core
