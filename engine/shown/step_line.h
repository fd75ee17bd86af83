// One finished step, for people and for metrics.jsonl.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/phases.h"
#include "core/types.h"
#include "engine/shown/wrapped_text.h"
#include "engine/state/progress_state.h"
#include "offload/slice_store.h"

namespace fm::engine {

// The same on every rank but the times.
struct StepLine {
  std::int64_t step = 0;
  std::int64_t last_step = 0;
  std::int64_t samples = 0;    // of the run so far
  double epoch = 0.0;          // how often they are the training data
  std::optional<double> loss;  // absent: no token of the step is trained
  double lr = 0.0;
  double grad_norm = 0.0;
  std::int64_t tokens = 0;
  double step_time_s = 0.0;
  double flops = 0.0;
  double peak_flops = 0.0;  // per second, of all cards' data sheets; 0: not known
  bool skipped = false;
  std::optional<bool> redone;        // of a speculative step: its update was undone
  std::optional<double> loss_scale;  // that the step was made with
  core::Bytes mem_peak;              // of the host
  // That this rank has taken of its device; absent: it has none.
  std::optional<core::Bytes> device_memory = {};
  std::int64_t minor_faults = 0;  // pages that this process touched for the first time in the step
  core::PhaseTimes phases;
  // To and from the disks of this rank; absent: nothing sleeps there.
  std::optional<offload::SliceStore::Totals> moved;
  double save_stall_ms = 0.0;  // that rank 0 spent on saves between the step before and this one
  std::optional<double> eval_loss;
  BestEvaluation best;

  // What the log adds.
  double unix_time = 0.0;
  std::optional<double> mean_loss = std::nullopt;  // of the steps since the last line, if several
  std::optional<double> seconds_left = std::nullopt;  // of the steps, not of evaluations and saves

  double tokens_per_second() const { return static_cast<double>(tokens) / step_time_s; }
  double gflops() const { return flops / step_time_s / 1e9; }
  // Model FLOPs utilization (arXiv 2204.02311), of 1; 0: not known.
  double mfu() const { return peak_flops > 0.0 ? flops / step_time_s / peak_flops : 0.0; }
};

// "step 12/100 12%  epoch 1.25  loss 5.4321 mean 5.5012  lr 3.00e-04  norm 1.23  1,234 tokens/s
// MFU 51%  345.0 MB  38s left", of a device "GPU 38.2 GB", in so many columns: what has no room is
// left out, in this order: memory, the mean, the time that is left, the percents, the epoch. A run
// of less than half an epoch has none.
std::string text_of(const StepLine& line, int columns = kFileColumns);
// "  phases: forward 29%, loss 31%, backward 36%, reduce 3%; 12.3 GFLOP/s; NVMe: 1.2 GB read, 1.2
// GB written, 12% waited"; what is less than half a percent is left out.
std::string phases_of(const StepLine& line);
// "evaluation of step 12: loss 5.4321, perplexity 228.6, the best so far"
std::string evaluation_of(const StepLine& line);
// Of a start that only evaluates: "evaluation of step 12: loss 5.4321, perplexity 228.6, 40 rows",
// and its line in metrics.jsonl: {"evaluation": {"step", "time", "eval_loss", "perplexity",
// "rows"}}.
std::string evaluation_of(const StepLine& line, std::int64_t rows);
std::string evaluation_json(const StepLine& line, std::int64_t rows);
// For the foot of a terminal `columns` wide: "[=====>     ] 12%  12/100  loss 5.4321  38s left".
std::string bar_of(const StepLine& line, int columns);
// One JSON object, loss with 9 and grad_norm with 17 significant digits; null for what is not
// finite, and for the loss of a step that trains nothing.
std::string json_of(const StepLine& line);

// "12,345"
std::string with_commas(double value);

}  // namespace fm::engine
