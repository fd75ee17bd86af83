// The JSON of chrome://tracing and Perfetto ("Trace Event Format", complete events).
#pragma once

#include <cstdint>
#include <string>

#include "core/trace.h"

namespace fm::engine {

// {"name": "gemm", "cat": "kernel", "ph": "X", "pid": 1, "tid": 0, "ts": 12.345, "dur": 0.678,
//  "args": {"m": 64, ..., "GFLOP/s": 123.4}}; ts counts from `zero_ns`, microseconds with all their
// digits. "flops" and "bytes" give a rate, GFLOP/s and GB/s. Values of kNoValue are left out.
std::string json_of(const core::TraceEvent& event, int rank, std::int64_t zero_ns);

// The name of a rank in the viewer, and its place among the others: two objects with a comma.
std::string json_of_rank(int rank, const std::string& name);

}  // namespace fm::engine
