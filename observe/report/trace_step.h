// One step of a Chrome trace that fmengine-train --trace wrote (engine/shown/step_trace.cc).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fm::report {

struct TraceInstruction {
  std::string name;  // of pipeline/instruction.cc
  std::int64_t micro = -1;
  std::int64_t unit = -1;  // -1: none
  double begin_us = 0;     // from the begin of the step on its first rank
  double end_us = 0;
  double ready_us = 0;  // when what it waited for first was there; its begin when it did not wait
};

struct TraceStep {
  std::int64_t step = 0;
  double length_us = 0;
  std::map<std::int64_t, std::vector<TraceInstruction>> ranks;  // by world rank, by their begin
  // The halves of whole backwards, as instructions.
  std::map<std::int64_t, std::vector<TraceInstruction>> parts = {};
  std::string prediction;  // engine/plan/pipe_prediction.h, "" when the trace has none
};

// The last step that all ranks of the trace have. Throws UserError (11) when the file is missing,
// no JSON, or has no such step.
TraceStep read_trace_step(const std::string& path);

}  // namespace fm::report
