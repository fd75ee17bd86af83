// What the user sees: the start banner, the line of a step, and output_dir/metrics.jsonl.
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "core/trace.h"
#include "engine/metrics_file.h"
#include "engine/run_facts.h"
#include "engine/trainer.h"
#include "kernels/gemm/gemm.h"

namespace fm::engine {

// Everything about one finished step, the same on every rank but the times.
struct StepLine {
  std::int64_t step = 0;
  std::int64_t last_step = 0;
  std::int64_t samples = 0;  // of the run so far
  double epoch = 0.0;        // how often they are the training data
  double loss = 0.0;
  double lr = 0.0;
  double grad_norm = 0.0;
  std::int64_t tokens = 0;
  double step_time_s = 0.0;
  double flops = 0.0;
  bool skipped = false;
  std::optional<double> loss_scale;  // that the step was made with
  core::Bytes mem_peak;
  std::int64_t minor_faults = 0;  // pages that this process touched for the first time in the step
  core::PhaseClock phases;
  std::optional<double> eval_loss;

  double tokens_per_second() const { return static_cast<double>(tokens) / step_time_s; }
  double gflops() const { return flops / step_time_s / 1e9; }
};

// "step 12/100 loss 5.4321 lr 3.00e-04 grad_norm 1.23 tokens/s 1,234 GFLOP/s 12.3 mem 345.0 MB
// | forward 29% loss 31% backward 36% reduce 3%", one line; phases of less than half a percent are
// left out.
std::string text_of(const StepLine& line);
// One JSON object, loss with 9 and grad_norm with 17 significant digits; null for what is not
// finite.
std::string json_of(const StepLine& line);

// The options' notes, and those that only options, model and CPU together give.
std::vector<std::string> notes_of(const TrainOptions& options);
std::vector<std::string> notes_of(const TrainOptions& options, bool gemm_is_fast);

// Lines of the start banner: the run's facts, what it needs, the machine. `run` has a plan.
std::string banner(const KnownRun& run, const RunContext& context);

// Writes to stdout and metrics.jsonl; on ranks other than 0 it is silent.
//
// Invariant: every line of the file is a whole JSON object, one per step and in their order; what a
//            start does again is in metrics.replaced.jsonl.
// Thread:    the rank's thread.
// Lifetime:  owns the file.
class RunLog {
 public:
  RunLog(const TrainOptions& options, const RunContext& context, bool speaks);
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  // Before the first step of a start, which goes on behind `step`.
  void begin_after(std::int64_t step);
  void step(const StepLine& line);
  void sync();  // lines of finished steps are on the disk, or it is said why not
  void say(const std::string& text);   // one plain line on stdout
  void warn(const std::string& text);  // one line on stderr

 private:
  void end_live_line();

  bool speaks_;
  bool terminal_;
  std::int64_t log_steps_;
  bool from_elsewhere_;  // --resume PATH: rows of earlier steps may be in another folder
  bool live_ = false;    // a live line stands on the terminal
  std::optional<MetricsFile> metrics_;
  bool lacks_lines_ = false;  // one could not be written, and that was said
};

}  // namespace fm::engine
