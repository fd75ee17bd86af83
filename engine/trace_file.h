// A file that appears whole, or not at all.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace fm::engine {

// Invariant: until finish() said "", what the path names is as it was before.
// Lifetime:  removes what is unfinished.
class TraceFile {
 public:
  // Makes `path`.tmp beside it. UserError (10) where that cannot be.
  explicit TraceFile(std::string path);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  void add(std::string_view text);  // a failure shows in finish()
  // Gives the file its name. "" or what is wrong.
  std::string finish();

 private:
  std::string path_;
  std::string unfinished_;
  std::FILE* file_ = nullptr;
  int error_ = 0;
};

}  // namespace fm::engine
