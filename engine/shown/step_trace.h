// --trace: some steps of all ranks in one file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "comm/communicator.h"
#include "core/files/output_file.h"
#include "core/trace.h"
#include "engine/options.h"
#include "engine/plan/run_plan.h"

namespace fm::engine {

// Nanoseconds to take off this rank's clock to have rank 0's, from times that both took at the same
// barriers: the median of the differences.
std::int64_t clock_ahead(std::span<const std::int64_t> mine, std::span<const std::int64_t> zero);

// Invariant: the recorder's memory is there before step 1. Nothing is written before write().
// Thread:    the rank's thread; construction and write() are collective over the world.
// Lifetime:  options and world outlive it.
class StepTrace {
 public:
  // Rank 0 throws UserError (10) when the file cannot be made: before anyone waits for it.
  StepTrace(const TrainOptions& options, comm::Communicator& world);

  // `steps`: that are left to this start. UserError (10) when the first one to trace is beyond. The
  // file will hold what the plan predicts of the pipe, too.
  void begin(std::int64_t steps, const RunPlan& plan);
  // Null outside the steps to trace; `nth`: step of this start, from 1.
  core::TraceRecorder* recorder_of(std::int64_t nth);
  bool complete() const { return !written_ && last_ == steps_.last; }
  // Nothing was written, and something was recorded: a run that ends early.
  bool unwritten() const { return !written_ && last_ > 0; }
  // What to say on rank 0; `failed` when there is no file.
  struct Outcome {
    std::string text;
    bool failed = false;
  };
  Outcome write();

 private:
  // What rank 0 must know of every rank; moved as bytes.
  struct Summary {
    std::int64_t first_ns = 0;  // on rank 0's clock
    std::int64_t events = 0;
    std::int64_t dropped = 0;
    std::int64_t text_bytes = 0;
  };

  std::int64_t find_clock_ahead();
  std::string text_of_events(std::int64_t zero_ns) const;
  void collect(std::span<const Summary> of_ranks, const std::string& mine);
  Outcome finish(std::span<const Summary> of_ranks);

  const TrainOptions& options_;
  TraceSteps steps_;
  comm::Communicator& world_;
  core::TraceRecorder recorder_;
  std::optional<core::OutputFile> file_;  // rank 0
  std::string prediction_;                // rank 0
  std::int64_t last_ = 0;                 // the newest step that was recorded; 0: none
  bool written_ = false;
};

// The JSON of chrome://tracing and Perfetto ("Trace Event Format", complete events).

// {"name": "gemm", "cat": "kernel", "ph": "X", "pid": 1, "tid": 0, "ts": 12.345, "dur": 0.678,
//  "args": {"m": 64, ..., "GFLOP/s": 123.4}}; ts counts from `zero_ns`, microseconds with all their
// digits; "tid" 1 is the queue of a device. "flops" and "bytes" give a rate, GFLOP/s and GB/s.
// Values of kNoValue are left out.
std::string json_of(const core::TraceEvent& event, int rank, std::int64_t zero_ns);

// The name of a rank in the viewer, and its place among the others: two objects with a comma.
std::string json_of_rank(int rank, const std::string& name);

}  // namespace fm::engine
