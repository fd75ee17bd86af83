#include "observe/report/page.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "core/check.h"
#include "core/text.h"
#include "observe/report/chart.h"
#include "observe/report/numbers.h"
#include "observe/report/pipe_picture.h"
#include "observe/report/series.h"
#include "observe/report/summary.h"
#include "observe/report/timeline.h"

namespace fm::report {
namespace {

using core::concat;

constexpr std::size_t kMostEvaluations = 24;
constexpr std::size_t kMostStarts = 100;
constexpr double kLogBeyond = 30;  // times; below, a linear axis shows as much

std::string row_of(std::initializer_list<std::string> cells, const char* tag = "td") {
  std::string out;
  for (const std::string& cell : cells) out += concat("<", tag, ">", cell, "</", tag, ">");
  return out;
}

// Bytes as MB or GB, so that ticks are short.
struct Memory {
  Column values;
  std::string unit;
};

Memory memory_of(const Column& sizes) {
  double most = 0;
  for (const double size : sizes) most = size > most ? size : most;
  const double unit = most >= 1e10 ? 1e9 : 1e6;
  Memory memory{sizes, unit == 1e9 ? "GB" : "MB"};
  for (double& size : memory.values) size /= unit;
  return memory;
}

class Charts {
 public:
  explicit Charts(const Metrics& metrics)
      : metrics_(metrics),
        steps_(metrics[Field::kStep]),
        memory_(memory_of(metrics[Field::kMemPeak])) {
    if (steps_.empty()) return;
    span_ = std::max(10.0, std::round(static_cast<double>(steps_.size()) / 100));
    loss_ = smoothed(metrics[Field::kLoss], span_);
    speed_ = smoothed(metrics[Field::kTokensPerSecond], span_);
    for (std::size_t row = 0; row < steps_.size(); ++row) {
      if (metrics[Field::kSkipped][row] > 0) skipped_.push_back(steps_[row]);
    }
    for (const Start& start : metrics.starts) {
      const auto from = static_cast<double>(start.from_step);
      if (from > steps_.front() && from <= steps_.back()) starts_.push_back(from);
    }
    std::sort(starts_.begin(), starts_.end());
  }

  std::string all() const {
    if (steps_.empty()) return "";
    return concat(loss(),
                  draw(one("learning-rate", "Learning rate", "", Field::kLearningRate, kFromZero)),
                  gradient_norm(), speed(),
                  draw(chart("memory", "Peak memory of rank 0", memory_.unit,
                             {{"resident", 3, Look::kLine, steps_, memory_.values}}, kFromZero)),
                  loss_scale(),
                  draw(Shares{.id = "phases",
                              .title = "Where the time of rank 0 goes",
                              .names = metrics_.phases,
                              .values = metrics_.phase_ms,
                              .steps = steps_,
                              .first_step = steps_.front(),
                              .last_step = steps_.back()}));
  }

 private:
  enum Scale : std::uint8_t { kFitting, kFromZero, kLogWherePossible };

  Chart chart(std::string id, std::string title, std::string unit, std::vector<Series> series,
              Scale scale) const {
    return {.id = std::move(id),
            .title = std::move(title),
            .unit = std::move(unit),
            .series = std::move(series),
            .first_step = steps_.front(),
            .last_step = steps_.back(),
            .log_beyond = scale == kLogWherePossible ? kLogBeyond : 0,
            .from_zero = scale == kFromZero};
  }
  Chart one(std::string id, std::string title, std::string unit, Field field, Scale scale) const {
    const std::string name = core::lower(title);
    return chart(std::move(id), std::move(title), std::move(unit),
                 {{name, 0, Look::kLine, steps_, metrics_[field]}}, scale);
  }
  std::string mean_words() const {
    return concat("exponential mean over ", with_commas(span_), " steps");
  }

  std::string loss() const {
    Chart made = chart("loss", "Loss", "per label",
                       {{"training", 0, Look::kFaintLine, steps_, metrics_[Field::kLoss]},
                        {"training, " + mean_words(), 0, Look::kLine, steps_, loss_},
                        {"evaluation", 1, Look::kPoints, steps_, metrics_[Field::kEvalLoss]}},
                       kLogWherePossible);
    made.wide = true;
    made.skipped = skipped_;
    made.starts = starts_;
    return draw(made);
  }
  std::string gradient_norm() const {
    Chart made = one("gradient-norm", "Gradient norm", "before clipping", Field::kGradNorm,
                     kLogWherePossible);
    made.series[0].colour = 2;
    made.skipped = skipped_;
    return draw(made);
  }
  // Wide, because the four before it fill two rows.
  std::string loss_scale() const {
    Chart made = one("loss-scale", "Loss scale", "", Field::kLossScale, kLogWherePossible);
    made.wide = true;
    made.skipped = skipped_;
    return draw(made);
  }
  std::string speed() const {
    return draw(chart("throughput", "Throughput", "tokens/s, all ranks",
                      {{"a step", 1, Look::kFaintLine, steps_, metrics_[Field::kTokensPerSecond]},
                       {mean_words(), 1, Look::kLine, steps_, speed_}},
                      kFromZero));
  }

  const Metrics& metrics_;
  const Column& steps_;
  const Memory memory_;
  double span_ = 0;
  Column loss_;
  Column speed_;
  std::vector<double> skipped_;
  std::vector<double> starts_;
};

std::string tiles(const Metrics& metrics) {
  std::string out;
  for (const Headline& line : headlines(metrics)) {
    out += concat("<div id=\"", line.id, "\"><dt>", escaped(line.name), "</dt><dd class=\"value\">",
                  escaped(line.value), "</dd><dd>", escaped(line.detail), "</dd></div>\n");
  }
  return out.empty() ? "" : "<dl class=\"tiles\">\n" + out + "</dl>\n";
}

std::string evaluation_table(const Metrics& metrics) {
  const std::vector<Evaluation> all = evaluations(metrics, kMostEvaluations);
  if (all.empty()) return "";
  std::string out = "<h2>Evaluations</h2>\n<div class=\"scroll\"><table id=\"evaluations\"><tr>" +
                    row_of({"step", "tokens", "loss", "perplexity", "change of loss"}, "th") +
                    "</tr>\n";
  double before = NAN;
  for (const Evaluation& at : all) {
    const double change = at.loss - before;
    out += concat(
        at.best ? "<tr class=\"best\">" : "<tr>",
        row_of({with_commas(at.step) + (at.best ? " (best)" : ""),
                at.tokens > 0 ? with_commas(at.tokens) : "", formatted("%.4f", at.loss),
                at.perplexity < 999.5 ? formatted("%#.4g", at.perplexity) : plain(at.perplexity),
                std::isfinite(change) ? formatted("%+.4f", change) : ""}),
        "</tr>\n");
    before = at.loss;
  }
  return out + "</table></div>\n";
}

// What differs from the start before is bold.
std::string facts_of(const Start& start, const std::map<std::string, std::string>& before) {
  if (start.facts.empty()) return "";
  std::string rows;
  int changed = 0;
  for (const auto& [name, value] : start.facts) {
    const auto found = before.find(name);
    const bool differs = !before.empty() && (found == before.end() || found->second != value);
    changed += differs ? 1 : 0;
    rows += concat(differs ? "<tr class=\"changed\">" : "<tr>", "<td>", escaped(name),
                   "</td><td class=\"text\">", escaped(value), "</td></tr>\n");
  }
  const std::string what = changed > 0 ? concat(", ", changed, " changed") : "";
  return concat("<details><summary>", start.facts.size(), " values", what, "</summary><table>",
                rows, "</table></details>");
}

std::string start_table(const Metrics& metrics) {
  if (metrics.starts.empty()) return "";
  std::string out = concat(
      "<h2>Starts</h2>\n<div class=\"scroll\"><table id=\"starts\"><tr><th>time</th>"
      "<th>version</th><th>from step</th><th>ranks</th><th "
      "class=\"text\">configuration</th></tr>\n");
  std::map<std::string, std::string> before;
  const std::size_t first = metrics.starts.size() - std::min(metrics.starts.size(), kMostStarts);
  for (std::size_t at = first; at < metrics.starts.size(); ++at) {
    const Start& start = metrics.starts[at];
    out += concat("<tr>",
                  row_of({date(start.time), escaped(start.version),
                          with_commas(static_cast<double>(start.from_step)),
                          start.ranks > 0 ? with_commas(static_cast<double>(start.ranks)) : ""}),
                  "<td class=\"text\">", facts_of(start, before), "</td></tr>\n");
    before = {start.facts.begin(), start.facts.end()};
  }
  out += "</table></div>\n";
  if (first > 0) out += concat("<p>The last ", kMostStarts, " of ", metrics.starts.size(), ".</p>");
  return out;
}

std::string pictures_of(const TraceStep& trace) {
  const std::optional<PipePrediction> predicted = read_prediction(trace.prediction);
  return (predicted ? figure_of(pipe_picture(&*predicted, &trace)) : "") + draw(timeline_of(trace));
}

}  // namespace

std::string page(const Metrics& metrics, const TraceStep* trace, const PageWords& words) {
  std::string notes;
  for (const std::string& complaint : complaints(metrics)) {
    notes += concat("<p class=\"note\">", escaped(complaint), "</p>\n");
  }
  const std::string charts = Charts(metrics).all() + (trace == nullptr ? "" : pictures_of(*trace));
  const std::string run = escaped(words.run);
  return concat(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
      run, ": training run</title>\n<style>", style(),
      "</style></head>\n<body><main>\n<header><h1>", run, "</h1><p>Training run, as of ",
      date(words.now), "</p></header>\n", notes, tiles(metrics), "<div class=\"charts\">\n", charts,
      "</div>\n", evaluation_table(metrics), start_table(metrics), "<footer>Made by ",
      escaped(words.program),
      " from metrics.jsonl. Lines are thinned to what the pixels can show; the least and the "
      "greatest values stay.</footer>\n</main></body></html>\n");
}

}  // namespace fm::report
