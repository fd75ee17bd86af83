// What the user sees: the start banner, the line of a step, and output_dir/metrics.jsonl.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/shown/measured_time.h"
#include "engine/shown/metrics_file.h"
#include "engine/shown/run_context.h"
#include "engine/shown/run_totals.h"
#include "engine/shown/step_line.h"
#include "engine/state/run_facts.h"
#include "kernels/gemm/gemm.h"

namespace fm::engine {

// What the type of a run costs its products.
struct ProductSpeed {
  bool type_is_slow = false;  // on this CPU, which has fast ones in fp32
  double bf16_gain = 1.0;     // of a GPU: their rate in bf16 over that in fp32; 1: not known
};
// `card`: what the driver calls the GPU; "": none computes, or it is not known.
ProductSpeed product_speed(const TrainOptions& options, std::string_view card);

// The options' notes, and those that only options, model, data and machine together give.
std::vector<std::string> notes_of(const KnownRun& run, const ProductSpeed& products);
std::vector<std::string> notes_of(const TrainOptions& options, const ProductSpeed& products);

// Lines of the start banner: the run's facts, what it needs, the machine, and the notes under a
// heading of their own. `run` has a plan; `done`: steps of the checkpoint that it goes on from.
// `measured`: what steps took in the start before.
std::string banner(const KnownRun& run, const RunContext& context, std::int64_t done,
                   const std::optional<MeasuredTime>& measured = std::nullopt);

// What metrics.jsonl says of a start: {"start": {"time", "version", "from_step", "ranks",
// "facts"}}.
std::string start_line(const KnownRun& run, const RunContext& context, std::int64_t done);

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
  // Banner, a warning where the disk is too small, and the line of the start in metrics.jsonl.
  void introduce(const KnownRun& run, const RunContext& context, std::int64_t done);
  void step(StepLine line);
  // Of a start that only evaluates the model of `step`, on so many rows.
  void evaluation(std::int64_t step, double loss, std::int64_t rows);
  // Behind the last step. `next`: commands, as they can be pasted.
  void summary(const std::string& model, const std::vector<std::string>& next);
  // Behind the line of a step that trained nothing: of some of them, where there are many.
  void say_untrained(const std::string& text);
  // Puts the lines of finished steps on the disk, in any thread; returns why not. May be empty.
  std::function<std::string()> sync_later() const;
  void say(const std::string& text);   // one plain line on stdout
  void warn(const std::string& text);  // one line on stderr
  // One plain line, and the same as an object of its own in metrics.jsonl.
  void note(const std::string& text, const std::string& json);

 private:
  void end_live_line();
  void print(const StepLine& line);
  void draw_bar();
  std::string painted(const char* colour, const std::string& text) const;

  bool speaks_;
  bool terminal_;
  bool colours_;
  std::function<int()> columns_;
  double peak_flops_;
  std::int64_t log_steps_;
  bool log_phases_;
  std::int64_t lines_ = 0;
  int untrained_ = 0;  // steps of which it was said
  RunTotals totals_;
  bool from_elsewhere_;          // --resume PATH: rows of earlier steps may be in another folder
  std::optional<StepLine> bar_;  // what the terminal's last line shows, also behind other lines
  bool live_ = false;            // it stands there
  std::optional<MetricsFile> metrics_;
  std::string start_before_;  // KeptRows::last_start
  bool lacks_lines_ = false;  // one could not be written, and that was said
};

}  // namespace fm::engine
