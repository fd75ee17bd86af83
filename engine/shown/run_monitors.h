// What monitors get of a run, and what DeepSpeed's breakdowns print of it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/shown/run_log.h"
#include "engine/state/run_facts.h"
#include "observe/monitor/monitor.h"

namespace fm::engine {

// Names are DeepSpeed's, then the Trainer's; the x axis is DeepSpeed's (samples) for all of them,
// because what a resume makes again is dropped by its place on it. `with_times`:
// wall_clock_breakdown.
std::vector<monitor::Event> events_of(const StepLine& line, bool with_times);

// Silent on ranks other than 0. What cannot be written is said once, and training goes on.
//
// Invariant: with --dry_run nothing is written to a file.
// Thread:    the rank's thread.
// Lifetime:  what `run` refers to and the log outlive it.
class RunMonitors {
 public:
  // `run` has a plan.
  RunMonitors(KnownRun run, RunLog& log, bool speaks);

  // Behind log.step(). `skipped`: steps of the run so far.
  void step(const StepLine& line, std::int64_t skipped);

 private:
  struct Output {
    std::string path;
    std::unique_ptr<monitor::Monitor> monitor;
    bool lacks_some = false;  // and that was said
  };

  void check(Output& place, const std::string& problem, std::int64_t step);
  std::vector<monitor::Metric> metrics_of(const StepLine& line, std::int64_t skipped);
  void print_profile(const StepLine& line);

  KnownRun run_;
  RunLog& log_;
  bool speaks_;
  bool writes_;
  std::vector<Output> places_;
  Output prometheus_;
  std::optional<double> eval_loss_;             // of the last evaluation of this start
  std::optional<std::int64_t> samples_before_;  // before this start
  std::int64_t skipped_before_ = 0;
};

}  // namespace fm::engine
