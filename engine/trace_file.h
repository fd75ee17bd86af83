// A trace as a file: the JSON of chrome://tracing and Perfetto, and a file that appears whole or
// not at all.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "core/trace.h"

namespace fm::engine {

// A file that appears whole, or not at all.

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

// Events as the JSON of chrome://tracing and Perfetto ("Trace Event Format", complete events).

// {"name": "gemm", "cat": "kernel", "ph": "X", "pid": 1, "tid": 0, "ts": 12.345, "dur": 0.678,
//  "args": {"m": 64, ..., "GFLOP/s": 123.4}}; ts counts from `zero_ns`, microseconds with all their
// digits. "flops" and "bytes" give a rate, GFLOP/s and GB/s. Values of kNoValue are left out.
std::string json_of(const core::TraceEvent& event, int rank, std::int64_t zero_ns);

// The name of a rank in the viewer, and its place among the others: two objects with a comma.
std::string json_of_rank(int rank, const std::string& name);

}  // namespace fm::engine
