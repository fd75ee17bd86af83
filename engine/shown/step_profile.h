// What DeepSpeed prints beside the lines of steps (wall_clock_breakdown, memory_breakdown,
// flops_profiler, comms_logger), in its words.
#pragma once

#include <string>

#include "comm/verb_counts.h"
#include "engine/shown/run_log.h"
#include "engine/state/run_facts.h"

namespace fm::engine {

// A step's time in ms, cut as DeepSpeed cuts it: forward holds the loss, and with it the head's
// whole backward; step holds the gathers of parameters.
struct StepParts {
  double forward = 0.0;
  double backward_inner = 0.0;
  double backward_allreduce = 0.0;
  double step = 0.0;
  double backward() const { return backward_inner + backward_allreduce; }
};
StepParts parts_of(const core::PhaseTimes& phases);

// Two lines: the mean micro-batch, where only `step` is that of the whole step, and the whole step.
std::string wall_clock_text(const StepParts& parts, std::int64_t micros);

// "memory after step 7 | MA 158.4 MB | Max_MA 160.1 MB": of rank 0's process.
std::string memory_text(std::int64_t step, core::Bytes now, core::Bytes peak);

// A table that ends in a line end. `run` has a plan.
std::string flops_profile_text(const KnownRun& run, const StepLine& line);

// A table of this rank's verbs that ends in a line end. A rate counts the whole buffer, of
// all_reduce twice, as DeepSpeed does (utils/comms_logging.py, calc_bw_log).
std::string comms_text(const comm::VerbCounts& counts);

}  // namespace fm::engine
