#include "engine/shown/run_totals.h"

#include <cmath>
#include <cstdio>
#include <numeric>

#include "core/check.h"
#include "core/text.h"

namespace fm::engine {
namespace {

constexpr std::size_t kLast = 10;

std::string four_places(double value) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.4f", value);
  return text;
}

}  // namespace

void RunTotals::add(const StepLine& line) {
  if (steps_ == 0) first_seconds_ = line.step_time_s;
  ++steps_;
  skipped_ += line.skipped ? 1 : 0;
  ahead_ += line.redone ? 1 : 0;
  redone_ += line.redone.value_or(false) ? 1 : 0;
  tokens_ += line.tokens;
  seconds_ += line.step_time_s;
  last_ = line;
  if (!line.loss) {
    ++untrained_;
    return;
  }
  if (steps_ == untrained_ + 1) first_of_loss_ = line;
  last_of_loss_ = line;
  if (!std::isfinite(*line.loss)) return;
  since_ += *line.loss;
  ++counted_;
  last_losses_.push_back(*line.loss);
  if (last_losses_.size() > kLast) last_losses_.pop_front();
}

std::optional<double> RunTotals::mean_loss() {
  const std::optional<double> mean =
      counted_ > 1 ? std::optional(since_ / static_cast<double>(counted_)) : std::nullopt;
  since_ = 0.0;
  counted_ = 0;
  return mean;
}

std::optional<double> RunTotals::seconds_left(const StepLine& line) const {
  if (steps_ == 0 || line.step >= line.last_step) return std::nullopt;
  const bool several = steps_ > 1;
  const double mean =
      several ? (seconds_ - first_seconds_) / static_cast<double>(steps_ - 1) : first_seconds_;
  return mean * static_cast<double>(line.last_step - line.step);
}

std::string RunTotals::summary(const std::string& model,
                               const std::vector<std::string>& next) const {
  if (steps_ == 0) return "";
  std::string out = core::concat("done: ", steps_, steps_ == 1 ? " step, " : " steps, ",
                                 with_commas(static_cast<double>(tokens_)), " tokens in ",
                                 core::human_duration(seconds_), " of steps, ",
                                 with_commas(static_cast<double>(tokens_) / seconds_), " tokens/s");
  const auto row = [&](const char* name, const std::string& words) {
    std::string head = core::concat("\n  ", name);
    head.resize(14, ' ');
    out += head + words;
  };
  const auto loss_in = [](const StepLine& line) {
    return line.loss ? core::concat(four_places(*line.loss), " in step ", line.step) : "none";
  };
  std::string losses = loss_in(first_of_loss_);
  if (steps_ > untrained_ + 1) losses += ", " + loss_in(last_of_loss_);
  if (last_losses_.size() > 1) {
    const double sum = std::accumulate(last_losses_.begin(), last_losses_.end(), 0.0);
    losses += core::concat(", mean of the last ", last_losses_.size(), " ",
                           four_places(sum / static_cast<double>(last_losses_.size())));
  }
  row("loss", losses);
  if (last_.best.step >= 0) {
    row("evaluation",
        core::concat("best ", four_places(last_.best.loss), " in step ", last_.best.step));
  }
  const std::string on_device =
      last_.device_memory ? ", " + core::human(*last_.device_memory) + " of its GPU" : "";
  row("memory", "at most " + core::human(last_.mem_peak) + " on rank 0" + on_device);
  if (untrained_ > 0) {
    row("no labels", core::concat(untrained_, untrained_ == 1 ? " step" : " steps",
                                  " trained nothing and had no loss"));
  }
  if (skipped_ > 0) row("skipped", core::concat(skipped_, skipped_ == 1 ? " step" : " steps"));
  if (ahead_ > 0) {
    row("ahead",
        core::concat(ahead_, ahead_ == 1 ? " step" : " steps", " ended before the norm was known, ",
                     redone_, " of them done again"));
  }
  if (!model.empty()) row("model", model);
  for (std::size_t at = 0; at < next.size(); ++at) row(at == 0 ? "next" : "", next[at]);
  return out;
}

}  // namespace fm::engine
