#include "engine/run_log.h"

#include <cmath>
#include <filesystem>
#include <utility>

#include "core/check.h"
#include "core/text.h"

namespace fm::engine {
namespace {

template <class... Values>
std::string format(const char* pattern, Values... values) {
  char text[512];
  std::snprintf(text, sizeof(text), pattern, values...);
  return text;
}

std::string number(const char* pattern, double value) {
  return std::isfinite(value) ? format(pattern, value) : "null";
}

std::string with_commas(double value) {
  std::string digits = format("%.0f", value);
  for (auto at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return digits;
}

std::string megabytes(core::Bytes bytes) {
  return format("%.1f", static_cast<double>(bytes.count()) / 1e6);
}

// " | forward 29% loss 31% backward 36% reduce 3%": parts of the step's time, rounded; what rounds
// to nothing is left out.
std::string phase_split(const StepLine& line) {
  std::string out;
  for (std::size_t at = 0; at < core::kPhaseCount; ++at) {
    const auto phase = static_cast<core::Phase>(at);
    const double percent = 0.1 * line.phases.ms(phase) / line.step_time_s;
    if (percent < 0.5) continue;
    out += (out.empty() ? " | " : " ") + std::string(core::name_of(phase)) +
           format(" %.0f%%", percent);
  }
  return out;
}

}  // namespace

std::string text_of(const StepLine& line) {
  std::string out =
      format("step %lld/%lld loss %.4f lr %.2e grad_norm %.4g", static_cast<long long>(line.step),
             static_cast<long long>(line.last_step), line.loss, line.lr, line.grad_norm);
  out += " tokens/s " + with_commas(line.tokens_per_second());
  out += format(" GFLOP/s %.1f", line.gflops()) + " mem " + core::human(line.mem_peak);
  out += phase_split(line);
  if (line.loss_scale) out += format(" loss_scale %.6g", *line.loss_scale);
  if (line.skipped) out += " SKIPPED";
  if (line.eval_loss) {
    out += format(" eval_loss %.4f perplexity %.4g", *line.eval_loss, std::exp(*line.eval_loss));
  }
  return out;
}

std::string json_of(const StepLine& line) {
  std::string out = "{\"step\": " + std::to_string(line.step);
  out += ", \"samples\": " + std::to_string(line.samples);
  out += ", \"epoch\": " + number("%.9g", line.epoch);
  out += ", \"loss\": " + number("%.9g", line.loss) + ", \"lr\": " + number("%.9g", line.lr);
  out += ", \"grad_norm\": " + number("%.17g", line.grad_norm);
  out += ", \"tokens\": " + std::to_string(line.tokens);
  out += ", \"tokens_per_second\": " + number("%.6g", line.tokens_per_second());
  out += ", \"gflops\": " + number("%.6g", line.gflops());
  out += ", \"step_time\": " + number("%.6g", line.step_time_s);
  out += ", \"phases\": {";
  for (std::size_t at = 0; at < core::kPhaseCount; ++at) {
    const auto phase = static_cast<core::Phase>(at);
    out += (at == 0 ? "\"" : ", \"") + std::string(core::name_of(phase)) +
           "\": " + number("%.3f", line.phases.ms(phase));
  }
  out += std::string("}, \"skipped\": ") + (line.skipped ? "true" : "false");
  if (line.loss_scale) out += ", \"loss_scale\": " + number("%.17g", *line.loss_scale);
  out += ", \"mem_peak_bytes\": " + std::to_string(line.mem_peak.count());
  out += ", \"minor_faults\": " + std::to_string(line.minor_faults);
  if (line.eval_loss) {
    out += ", \"eval_loss\": " + number("%.9g", *line.eval_loss) +
           ", \"perplexity\": " + number("%.9g", std::exp(*line.eval_loss));
  }
  return out + "}";
}

std::vector<std::string> notes_of(const TrainOptions& options) {
  return notes_of(options, kernels::gemm_is_fast(options.element));
}

std::vector<std::string> notes_of(const TrainOptions& options, bool gemm_is_fast) {
  std::vector<std::string> notes = options.notes;
  if (options.element != core::DType::kF32 && !gemm_is_fast) {
    const std::string type(core::name_of(options.element));
    notes.push_back(type + " is slow here, its products are " +
                    kernels::gemm_library(options.element) + "; --precision fp32 is faster");
  }
  return notes;
}

std::string banner(const KnownRun& run, const RunContext& context) {
  const TrainOptions& options = run.options;
  std::string out = "fmengine: " + options.project_name + " / " + options.experiment_name + "\n";
  out += banner_lines(run_facts(run));
  for (int rank = 0; rank < run.plan->mesh.pipe; ++rank) {
    const MemoryForecast memory = run.plan->memory(rank);
    out += core::concat("  memory     pipe rank ", rank, ", MB per rank: params ",
                        megabytes(memory.params), ", grads ", megabytes(memory.grads),
                        ", optimizer ", megabytes(memory.optimizer), ", slots ",
                        megabytes(memory.slots), ", scratch ", megabytes(memory.scratch),
                        ", activations ", megabytes(memory.activations), "\n");
  }
  for (const std::string& line : context.report_lines) out += "  " + line + "\n";
  for (const std::string& note : notes_of(options)) out += "  note       " + note + "\n";
  return out;
}

RunLog::RunLog(const TrainOptions& options, const RunContext& context, bool speaks)
    : speaks_(speaks),
      terminal_(context.terminal),
      log_steps_(options.log_steps),
      from_elsewhere_(options.resume == checkpoint::Resume::kPath) {
  if (!speaks || options.dry_run) return;
  metrics_.emplace(std::filesystem::path(options.output_dir) / "metrics.jsonl");
}

RunLog::~RunLog() { end_live_line(); }

void RunLog::begin_after(std::int64_t step) {
  if (!metrics_) return;
  const KeptRows found = metrics_->keep_until(step);
  if (!found.problem.empty()) {
    warn("metrics.jsonl keeps rows of steps that are done again; for each the last row counts (" +
         found.problem + ")");
  }
  if (found.cut > 0) {
    say(core::concat("metrics.jsonl is cut back to step ", step, ": ", found.cut,
                     " rows are in metrics.replaced.jsonl now"));
  }
  if (!found.missing.empty() && !(from_elsewhere_ && found.rows == 0)) {
    warn(core::concat("metrics.jsonl lacks the rows of steps ", found.missing,
                      ", from before step ", step + 1));
  }
}

void RunLog::sync() {
  if (!metrics_) return;
  const std::string problem = metrics_->sync();
  if (!problem.empty()) warn("metrics.jsonl may lose lines at a power cut (" + problem + ")");
}

void RunLog::step(const StepLine& line) {
  if (!speaks_) return;
  const std::string problem = metrics_ ? metrics_->append(json_of(line)) : "";
  if (!problem.empty() && !std::exchange(lacks_lines_, true)) {
    warn(core::concat("metrics.jsonl lacks lines from step ", line.step,
                      " on, training continues; make space in the output directory (", problem,
                      ")"));
  }
  const bool due = log_steps_ > 0 && (line.step % log_steps_ == 0 || line.step == line.last_step);
  const bool keep = line.skipped || line.eval_loss.has_value();
  if (!due && !keep) return;
  if (terminal_ && !keep && line.step != line.last_step) {
    // Not wrapped at the terminal's edge: what runs over it could not be taken back.
    std::printf("\r\033[K\033[?7l%s\033[?7h", text_of(line).c_str());
    live_ = true;
  } else {
    if (live_) std::printf("\r\033[K");
    live_ = false;
    std::printf("%s\n", text_of(line).c_str());
  }
  std::fflush(stdout);
}

void RunLog::say(const std::string& text) {
  if (!speaks_) return;
  end_live_line();
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

void RunLog::warn(const std::string& text) {
  if (!speaks_) return;
  end_live_line();
  std::fprintf(stderr, "fmengine: %s\n", text.c_str());
}

void RunLog::end_live_line() {
  if (live_) std::printf("\n");
  live_ = false;
}

}  // namespace fm::engine
