// Where the numbers of a run go, and which of its steps are looked into.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fm::engine {

// Steps of one start, from 1; both ends belong to it.
struct TraceSteps {
  std::int64_t first = 3;
  std::int64_t last = 5;
};

// Where numbers of a step go beside its line and metrics.jsonl; "", none and 0: nowhere.
struct MonitorOptions {
  std::vector<std::string> tensorboard;  // folders
  std::vector<std::string> csv;          // folders
  std::string prometheus_file;
  // DeepSpeed's wall_clock_breakdown, memory_breakdown, flops_profiler
  bool wall_clock = false;
  bool memory = false;
  std::int64_t profile_step = 0;
  std::string profile_file;  // "": stdout
  bool comms = false;        // comms_logger
};

}  // namespace fm::engine
