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

// What the units of a model took in a traced step, for a plan by measured times.

// Microseconds; 0: the trace has none.
struct PhaseTimes {
  double forward = 0.0;
  double input = 0.0;   // backward to the input
  double weight = 0.0;  // backward to the weights
};

// Medians over micro-batches, units and ranks. Waits for a message or for weights are left out.
struct UnitTimes {
  PhaseTimes embedding;
  PhaseTimes block;
  double head = 0.0;  // the loss: forward and whole backward
  // From the end of a send, or from when the receiver waited, to when the message was there.
  double message = 0.0;
  // Of one micro-batch, of a rank's blocks together, head and embedding left out.
  PhaseTimes rank;
};

// Throws UserError (11) that names what the trace lacks; `path`: for the message.
UnitTimes unit_times(const TraceStep& trace, const std::string& path);

}  // namespace fm::report
