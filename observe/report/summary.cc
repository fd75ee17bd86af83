#include "observe/report/summary.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "core/text.h"
#include "observe/report/numbers.h"
#include "observe/report/series.h"

namespace fm::report {
namespace {

using core::concat;

constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

// Row of the least finite number, the first of equal ones; kNowhere when there is none.
std::size_t least_row(const Column& column) {
  std::size_t best = kNowhere;
  for (std::size_t row = 0; row < column.size(); ++row) {
    if (!std::isfinite(column[row])) continue;
    if (best == kNowhere || column[row] < column[best]) best = row;
  }
  return best;
}

std::size_t last_row(const Column& column) {
  for (std::size_t row = column.size(); row-- > 0;) {
    if (std::isfinite(column[row])) return row;
  }
  return kNowhere;
}

// As lines of a run show it.
std::string loss_text(double loss) {
  return loss >= 0.01 && loss < 1000 ? formatted("%.4f", loss) : plain(loss);
}

class Headlines {
 public:
  explicit Headlines(const Metrics& metrics) : metrics_(metrics), steps_(metrics[Field::kStep]) {}

  std::vector<Headline> all() {
    if (steps_.empty()) return {};
    add_length();
    add_losses();
    add_costs();
    return std::move(found_);
  }

 private:
  void add(std::string id, std::string name, std::string value, std::string detail) {
    found_.push_back({std::move(id), std::move(name), std::move(value), std::move(detail)});
  }
  std::string at_step(std::size_t row) const { return "at step " + with_commas(steps_[row]); }
  double last(Field field) const {
    const std::size_t row = last_row(metrics_[field]);
    return row == kNowhere ? NAN : metrics_[field][row];
  }

  void add_length() {
    const double skipped = sum(metrics_[Field::kSkipped]);
    const auto rows = static_cast<double>(metrics_.rows());
    std::string detail = skipped > 0 ? concat(with_commas(skipped), " skipped") : "none skipped";
    double untrained = 0;
    for (std::size_t row = 0; row < metrics_.rows(); ++row) untrained += trained_nothing(row);
    if (untrained > 0) detail += ", " + with_commas(untrained) + " without a loss";
    if (rows < steps_.back()) detail += ", " + with_commas(rows) + " rows";
    add("steps", "Steps", with_commas(steps_.back()), detail);
    const double tokens = sum(metrics_[Field::kTokens]);
    detail.clear();
    if (const double samples = last(Field::kSamples); samples > 0) {
      detail = with_commas(samples) + " samples";
    }
    if (const double epoch = last(Field::kEpoch); epoch > 0) {
      detail += concat(detail.empty() ? "" : ", ", "epoch ", plain(epoch, 3));
    }
    if (tokens > 0) {
      add("tokens", "Tokens",
          tokens < 1e6    ? with_commas(tokens)
          : tokens < 1e15 ? core::human_count(tokens)
                          : plain(tokens),
          detail);
    }
    add_time();
  }

  void add_time() {
    const double spent = sum(metrics_[Field::kStepTime]);
    if (!(spent > 0)) return;
    const Column& times = metrics_[Field::kTime];
    double first = HUGE_VAL;
    for (const double time : times) first = std::isfinite(time) ? std::min(first, time) : first;
    for (const Start& one : metrics_.starts) {
      if (std::isfinite(one.time)) first = std::min(first, one.time);
    }
    const double wall = last(Field::kTime) - first;
    add("time", "Time in steps", duration(spent),
        wall >= 0 ? duration(wall) + " since the first start"
                  : "median step " + duration(median(metrics_[Field::kStepTime])));
  }

  // Of steps that trained nothing, the norm is a number.
  bool trained_nothing(std::size_t row) const {
    return !std::isfinite(metrics_[Field::kLoss][row]) &&
           std::isfinite(metrics_[Field::kGradNorm][row]) && !(metrics_[Field::kSkipped][row] > 0);
  }

  // The luck of one batch is not the model's.
  static std::string mean_words(const Column& loss) {
    constexpr std::size_t kLast = 10;
    Column last;
    for (std::size_t row = loss.size(); row-- > 0 && last.size() < kLast;) {
      if (std::isfinite(loss[row])) last.push_back(loss[row]);
    }
    if (last.size() < kLast) return "";
    return concat("; mean of the last ", kLast, ": ",
                  loss_text(sum(last) / static_cast<double>(kLast)));
  }

  void add_losses() {
    const Column& loss = metrics_[Field::kLoss];
    if (const std::size_t row = last_row(loss); row != kNowhere) {
      add("last-loss", "Last loss", loss_text(loss[row]),
          at_step(row) +
              (row + 1 == loss.size()             ? ""
               : trained_nothing(loss.size() - 1) ? ", then none"
                                                  : ", then not finite") +
              mean_words(loss));
      const std::size_t best = least_row(loss);
      add("lowest-loss", "Lowest step", loss_text(loss[best]), at_step(best));
    }
    const Column& evaluated = metrics_[Field::kEvalLoss];
    if (const std::size_t best = least_row(evaluated); best != kNowhere) {
      add("best-evaluation", "Best evaluation", loss_text(evaluated[best]),
          concat(at_step(best), ", perplexity ", plain(std::exp(evaluated[best]))));
    }
  }

  void add_costs() {
    const double rate = median(metrics_[Field::kTokensPerSecond]);
    const double gflops = median(metrics_[Field::kGflops]);
    if (rate > 0) {
      add("speed", "Tokens/s", plain(rate),
          gflops > 0 ? concat("median; ", plain(gflops), " GFLOP/s") : "median");
    }
    const Column& memory = metrics_[Field::kMemPeak];
    if (memory.empty() || last_row(memory) == kNowhere) return;
    double most = 0;
    for (const double size : memory) most = size > most ? size : most;
    add("memory", "Peak memory", bytes(most), "resident, of rank 0");
  }

  const Metrics& metrics_;
  const Column& steps_;
  std::vector<Headline> found_;
};

}  // namespace

double loss_span(const Metrics& metrics) {
  return std::max(10.0, std::round(static_cast<double>(metrics.rows()) / 100));
}

std::vector<Headline> headlines(const Metrics& metrics) { return Headlines(metrics).all(); }

std::vector<Evaluation> evaluations(const Metrics& metrics, std::size_t most) {
  const Column& loss = metrics[Field::kEvalLoss];
  const std::size_t best = least_row(loss);
  std::vector<Evaluation> all;
  double tokens = 0;
  for (std::size_t row = 0; row < metrics.rows(); ++row) {
    const double here = metrics[Field::kTokens][row];
    tokens += std::isfinite(here) ? here : 0;
    if (!std::isfinite(loss[row])) continue;
    const double written = metrics[Field::kPerplexity][row];
    all.push_back({.step = metrics[Field::kStep][row],
                   .loss = loss[row],
                   .perplexity = std::isfinite(written) ? written : std::exp(loss[row]),
                   .tokens = tokens,
                   .best = row == best});
  }
  if (all.size() <= most) return all;
  std::vector<Evaluation> chosen;
  const std::size_t every = (all.size() + most - 1) / most;
  for (std::size_t at = 0; at < all.size(); ++at) {
    const bool stays = (all.size() - 1 - at) % every == 0;
    if (stays || all[at].best) chosen.push_back(all[at]);
  }
  return chosen;
}

std::vector<std::string> complaints(const Metrics& metrics) {
  std::vector<std::string> out;
  const auto count = [](std::int64_t number, const char* what) {
    return concat(with_commas(static_cast<double>(number)), " ", what, number == 1 ? "" : "s");
  };
  if (metrics.damaged_lines > 0) {
    out.push_back(concat(count(metrics.damaged_lines, "damaged line"),
                         " of metrics.jsonl left out; the first one is line ",
                         with_commas(static_cast<double>(metrics.first_damaged_line)), "."));
  }
  if (metrics.replaced_rows > 0) {
    out.push_back(concat(count(metrics.replaced_rows, "row"),
                         " of steps that were done again left out; for each step the last row "
                         "counts."));
  }
  if (metrics.rows() == 0) out.emplace_back("metrics.jsonl has no row of a step.");
  return out;
}

std::string summary_text(const Metrics& metrics, const std::string& name) {
  std::string out = "run              " + name + "\n";
  const auto add = [&out](std::string word, const std::string& value, const std::string& detail) {
    word.resize(std::max<std::size_t>(word.size() + 1, 17), ' ');
    out += word + value + (detail.empty() ? "" : " (" + detail + ")") + "\n";
  };
  if (!metrics.starts.empty()) {
    for (const auto& [word, words] : metrics.starts.back().lines) add(word, words, "");
  }
  for (const Headline& line : headlines(metrics)) {
    add(core::lower(line.name), line.value, line.detail);
  }
  for (const Start& one : metrics.starts) {
    add("start", date(one.time),
        concat("version ", one.version, ", from step ", one.from_step, ", ",
               core::counted(one.ranks, "rank")));
  }
  for (const std::string& complaint : complaints(metrics)) add("note", complaint, "");
  return core::readable(out);
}

}  // namespace fm::report
