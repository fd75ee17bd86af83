#include "engine/shown/step_line.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <type_traits>
#include <vector>

#include "core/check.h"
#include "core/text.h"

namespace fm::engine {
namespace {

// What is no number has no sign: "nan", not "-nan".
template <class Value>
Value shown(Value value) {
  if constexpr (std::is_floating_point_v<Value>) {
    if (std::isnan(value)) return std::abs(value);
  }
  return value;
}

template <class... Values>
std::string format(const char* pattern, Values... values) {
  char text[512];
  std::snprintf(text, sizeof(text), pattern, shown(values)...);
  return text;
}

std::string number(const char* pattern, double value) {
  return std::isfinite(value) ? format(pattern, value) : "null";
}

double share_of(const StepLine& line) {
  return line.last_step > 0 ? static_cast<double>(line.step) / static_cast<double>(line.last_step)
                            : 0.0;
}

std::string loss_of(const StepLine& line) {
  return line.loss ? format("loss %.4f", *line.loss) : "no loss";
}

// A run that sees little of its data does not count in epochs.
std::string epoch_of(const StepLine& line) {
  constexpr double kLeast = 0.5;  // of the whole run
  return line.epoch < kLeast * share_of(line) || line.epoch <= 0.0
             ? ""
             : format("epoch %.2f", line.epoch);
}

std::string left_of(const StepLine& line) {
  return line.seconds_left ? core::human_duration(*line.seconds_left) + " left" : "";
}

// Of rank 0.
std::string moves_of(const StepLine& line) {
  if (!line.moved) return "";
  return core::concat(
      "; NVMe: ", core::human(line.moved->read), " read, ", core::human(line.moved->written),
      " written", format(", %.0f%% waited", 100 * line.moved->waited_seconds / line.step_time_s));
}

// Of a device what it holds: the host has little.
std::string memory_of(const StepLine& line) {
  return line.device_memory ? "GPU " + core::human(*line.device_memory)
                            : core::human(line.mem_peak);
}

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) {
    if (!part.empty()) out += (out.empty() ? "" : "  ") + part;
  }
  return out;
}

}  // namespace

std::string with_commas(double value) { return core::grouped(format("%.0f", value)); }

std::string text_of(const StepLine& line, int columns) {
  enum Part { kAll, kNoMemory, kNoMean, kNoTime, kNoPercents, kNoEpoch };
  const auto row = [&](int without) {
    const bool mean = without < kNoMean && line.mean_loss;
    return joined(
        {format("step %lld/%lld", static_cast<long long>(line.step),
                static_cast<long long>(line.last_step)) +
             (without < kNoPercents ? format(" %.0f%%", std::floor(100 * share_of(line))) : ""),
         without < kNoEpoch ? epoch_of(line) : "",
         loss_of(line) + (mean ? format(" mean %.4f", *line.mean_loss) : ""),
         format("lr %.2e", line.lr), format("norm %.4g", line.grad_norm),
         with_commas(line.tokens_per_second()) + " tokens/s",
         line.peak_flops > 0.0 ? format("MFU %.0f%%", 100 * line.mfu()) : "",
         without < kNoMemory ? memory_of(line) : "", without < kNoTime ? left_of(line) : "",
         line.loss_scale ? format("scale %.6g", *line.loss_scale) : "",
         line.skipped ? "SKIPPED" : ""});
  };
  std::string text = row(kAll);
  for (int without = kNoMemory; without <= kNoEpoch; ++without) {
    if (std::ssize(text) <= columns) break;
    text = row(without);
  }
  return text;
}

std::string phases_of(const StepLine& line) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < core::kPhaseCount; ++at) {
    const auto phase = static_cast<core::Phase>(at);
    const double percent = 0.1 * line.phases.ms(phase) / line.step_time_s;
    if (percent < 0.5) continue;
    parts.push_back(std::string(core::name_of(phase)) + format(" %.0f%%", percent));
  }
  return core::concat("  phases: ", core::join(parts, ", "),
                      format("; %.1f GFLOP/s", line.gflops()), moves_of(line));
}

std::string evaluation_of(const StepLine& line) {
  const double loss = line.eval_loss.value_or(std::nan(""));
  const bool best = line.best.step == line.step;
  return format("evaluation of step %lld: loss %.4f, perplexity %.4g",
                static_cast<long long>(line.step), loss, std::exp(loss)) +
         (best ? ", the best so far"
               : format(", best %.4f in step %lld", line.best.loss,
                        static_cast<long long>(line.best.step)));
}

std::string evaluation_of(const StepLine& line, std::int64_t rows) {
  const double loss = line.eval_loss.value_or(std::nan(""));
  return format("evaluation of step %lld: loss %.4f, perplexity %.4g, ",
                static_cast<long long>(line.step), loss, std::exp(loss)) +
         core::counted(rows, "row");
}

std::string evaluation_json(const StepLine& line, std::int64_t rows) {
  const double loss = line.eval_loss.value_or(std::nan(""));
  return core::concat(
      "{\"evaluation\": {\"step\": ", line.step, ", \"time\": ", number("%.3f", line.unix_time),
      ", \"eval_loss\": ", number("%.9g", loss),
      ", \"perplexity\": ", number("%.9g", std::exp(loss)), ", \"rows\": ", rows, "}}");
}

std::string bar_of(const StepLine& line, int columns) {
  std::string words =
      joined({format("%.0f%%", std::floor(100 * share_of(line))),
              format("%lld/%lld", static_cast<long long>(line.step),
                     static_cast<long long>(line.last_step)),
              loss_of(line), with_commas(line.tokens_per_second()) + " tokens/s", left_of(line)});
  const int room = std::min(40, columns - 5 - static_cast<int>(words.size()));
  if (room < 5) return words;
  const auto done = static_cast<int>(std::floor(share_of(line) * room));
  std::string bar(static_cast<std::size_t>(room), ' ');
  std::fill_n(bar.begin(), done, '=');
  if (done < room) bar[static_cast<std::size_t>(done)] = '>';
  return "[" + bar + "] " + words;
}

std::string json_of(const StepLine& line) {
  std::string out = "{\"step\": " + std::to_string(line.step);
  out += ", \"time\": " + number("%.3f", line.unix_time);
  out += ", \"samples\": " + std::to_string(line.samples);
  out += ", \"epoch\": " + number("%.9g", line.epoch);
  out += ", \"loss\": " + (line.loss ? number("%.9g", *line.loss) : "null");
  out += ", \"lr\": " + number("%.9g", line.lr);
  out += ", \"grad_norm\": " + number("%.17g", line.grad_norm);
  out += ", \"tokens\": " + std::to_string(line.tokens);
  out += ", \"tokens_per_second\": " + number("%.6g", line.tokens_per_second());
  out += ", \"gflops\": " + number("%.6g", line.gflops());
  if (line.peak_flops > 0.0) out += ", \"mfu\": " + number("%.4g", line.mfu());
  out += ", \"step_time\": " + number("%.6g", line.step_time_s);
  out += ", \"phases\": {";
  for (std::size_t at = 0; at < core::kPhaseCount; ++at) {
    const auto phase = static_cast<core::Phase>(at);
    out += (at == 0 ? "\"" : ", \"") + std::string(core::name_of(phase)) +
           "\": " + number("%.3f", line.phases.ms(phase));
  }
  out += std::string("}, \"skipped\": ") + (line.skipped ? "true" : "false");
  if (line.redone) out += std::string(", \"ahead\": ") + (*line.redone ? "\"redone\"" : "\"kept\"");
  if (line.loss_scale) out += ", \"loss_scale\": " + number("%.17g", *line.loss_scale);
  out += ", \"mem_peak_bytes\": " + std::to_string(line.mem_peak.count());
  if (line.device_memory) {
    out += ", \"device_mem_bytes\": " + std::to_string(line.device_memory->count());
  }
  out += ", \"minor_faults\": " + std::to_string(line.minor_faults);
  if (line.moved) {
    out += ", \"nvme_read_bytes\": " + std::to_string(line.moved->read.count());
    out += ", \"nvme_written_bytes\": " + std::to_string(line.moved->written.count());
    out += ", \"nvme_wait\": " + number("%.6g", line.moved->waited_seconds);
  }
  if (line.save_stall_ms > 0.0) {
    out += ", \"save_stall_ms\": " + number("%.3f", line.save_stall_ms);
  }
  if (line.eval_loss) {
    out += ", \"eval_loss\": " + number("%.9g", *line.eval_loss) +
           ", \"perplexity\": " + number("%.9g", std::exp(*line.eval_loss));
  }
  return out + "}";
}

}  // namespace fm::engine
