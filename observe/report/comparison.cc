#include "observe/report/comparison.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "core/check.h"
#include "core/text.h"
#include "observe/report/chart.h"
#include "observe/report/numbers.h"
#include "observe/report/series.h"
#include "observe/report/summary.h"

namespace fm::report {
namespace {

using core::concat;

constexpr double kLogBeyond = 30;
// Of observe/report/page.cc's sheet: those that are furthest apart.
constexpr std::array<int, kMostRuns> kRunColours = {0, 1, 2, 3, 5, 6, 4, 9};

struct CellRows {
  std::vector<std::string> head;  // "", then the runs
  std::vector<std::vector<std::string>> rows;
};

CellRows table_of(const std::vector<NamedRun>& runs) {
  CellRows table{{""}, {}};
  for (const NamedRun& run : runs) table.head.push_back(run.name);
  return table;
}

// A cell per run, found by name: rows that no run has a value for are left out.
void add_row(CellRows& table, const std::string& name, std::vector<std::string> cells) {
  if (std::ranges::all_of(cells, [](const std::string& cell) { return cell.empty(); })) return;
  cells.insert(cells.begin(), name);
  table.rows.push_back(std::move(cells));
}

CellRows results_of(const std::vector<NamedRun>& runs) {
  CellRows table = table_of(runs);
  std::vector<std::vector<Headline>> found;
  std::vector<std::pair<std::string, std::string>> names;  // id, name, in the order of the first
  for (const NamedRun& run : runs) {
    found.push_back(headlines(run.metrics));
    for (const Headline& line : found.back()) {
      const std::pair<std::string, std::string> one{line.id, line.name};
      if (std::ranges::find(names, one) == names.end()) names.push_back(one);
    }
  }
  for (const auto& [id, name] : names) {
    std::vector<std::string> cells;
    for (const std::vector<Headline>& lines : found) {
      const auto at = std::ranges::find(lines, id, &Headline::id);
      cells.push_back(at == lines.end()    ? ""
                      : at->detail.empty() ? at->value
                                           : concat(at->value, " (", at->detail, ")"));
    }
    add_row(table, name, std::move(cells));
  }
  return table;
}

// Of the last start of each run, the facts that are not the same in all of them.
CellRows settings_of(const std::vector<NamedRun>& runs) {
  CellRows table = table_of(runs);
  std::map<std::string, std::vector<std::string>> values;
  std::vector<std::string> order;
  const auto put = [&](const std::string& name, std::size_t run, const std::string& value) {
    auto [at, is_new] = values.try_emplace(name, runs.size());
    if (is_new) order.push_back(name);
    at->second[run] = value;
  };
  for (std::size_t at = 0; at < runs.size(); ++at) {
    if (runs[at].metrics.starts.empty()) continue;
    const Start& start = runs[at].metrics.starts.back();
    put("version", at, start.version);
    put("ranks", at, start.ranks > 0 ? std::to_string(start.ranks) : "");
    // Facts are exact, but of these the words are for people.
    constexpr std::array<std::string_view, 3> kInWords = {"model", "weights", "data"};
    for (const auto& [name, words] : start.lines) {
      if (std::ranges::find(kInWords, name) != kInWords.end()) put(name, at, words);
    }
    for (const auto& [name, value] : start.facts) {
      if (std::ranges::find(kInWords, name) == kInWords.end()) put(name, at, value);
    }
  }
  for (const std::string& name : order) {
    const std::vector<std::string>& cells = values[name];
    const bool same =
        std::ranges::all_of(cells, [&](const auto& cell) { return cell == cells[0]; });
    if (!same) add_row(table, name, cells);
  }
  return table;
}

std::string html_of(const CellRows& table, const char* id, const char* title) {
  if (table.rows.empty()) return "";
  std::string out =
      concat("<h2>", title, "</h2>\n<div class=\"scroll\"><table id=\"", id, "\"><tr>");
  for (const std::string& cell : table.head) {
    out += concat("<th class=\"text\">", escaped(cell), "</th>");
  }
  out += "</tr>\n";
  for (const std::vector<std::string>& row : table.rows) {
    out += "<tr>";
    for (const std::string& cell : row) {
      out += concat("<td class=\"text\">", escaped(cell), "</td>");
    }
    out += "</tr>\n";
  }
  return out + "</table></div>\n";
}

// Cells below each other: the values of runs are too long for columns.
std::string text_of(const CellRows& table, const std::string& title) {
  if (table.rows.empty()) return "";
  std::string out = title + "\n";
  std::size_t width = 0;
  for (const std::string& name : table.head) width = std::max(width, name.size());
  for (const std::vector<std::string>& row : table.rows) {
    out += "  " + core::lower(row.front()) + "\n";
    for (std::size_t at = 1; at < row.size(); ++at) {
      std::string name = table.head[at];
      name.resize(width, ' ');
      out += concat("    ", name, "  ", row[at].empty() ? "-" : row[at], "\n");
    }
  }
  return out;
}

class OverlaidCharts {
 public:
  explicit OverlaidCharts(const std::vector<NamedRun>& runs) : runs_(runs) {
    for (const NamedRun& run : runs) {
      losses_.push_back(smoothed_from_start(run.metrics[Field::kLoss], loss_span(run.metrics)));
      speeds_.push_back(
          smoothed_from_start(run.metrics[Field::kTokensPerSecond], loss_span(run.metrics)));
      const Column& steps = run.metrics[Field::kStep];
      if (steps.empty()) continue;
      first_ = std::min(first_, steps.front());
      last_ = std::max(last_, steps.back());
    }
  }

  std::string all() const {
    Chart loss = chart("loss", "Loss", "exponential mean, per label",
                       [&](std::size_t run) { return std::span(losses_[run]); });
    loss.log_beyond = kLogBeyond;
    loss.wide = true;
    Chart evaluation = chart("evaluation-loss", "Evaluation loss", "per label",
                             [&](std::size_t run) { return of(run, Field::kEvalLoss); });
    for (Series& series : evaluation.series) series.look = Look::kPoints;
    Chart rate = chart("learning-rate", "Learning rate", "",
                       [&](std::size_t run) { return of(run, Field::kLearningRate); });
    Chart norm = chart("gradient-norm", "Gradient norm", "before clipping",
                       [&](std::size_t run) { return of(run, Field::kGradNorm); });
    norm.log_beyond = kLogBeyond;
    Chart speed = chart("throughput", "Throughput", "tokens/s, all ranks",
                        [&](std::size_t run) { return std::span(speeds_[run]); });
    rate.from_zero = speed.from_zero = true;
    return concat(draw(loss), draw(evaluation), draw(rate), draw(norm), draw(speed));
  }

 private:
  std::span<const double> of(std::size_t run, Field field) const {
    return runs_[run].metrics[field];
  }

  template <class ValuesOf>
  Chart chart(const char* id, const char* title, const char* unit, const ValuesOf& values) const {
    Chart out{.id = id, .title = title, .unit = unit, .series = {}};
    for (std::size_t run = 0; run < runs_.size(); ++run) {
      out.series.push_back({runs_[run].name, kRunColours[run % kMostRuns], Look::kLine,
                            of(run, Field::kStep), values(run)});
    }
    out.first_step = first_;
    out.last_step = last_;
    return out;
  }

  const std::vector<NamedRun>& runs_;
  std::vector<Column> losses_;  // means
  std::vector<Column> speeds_;
  double first_ = HUGE_VAL;
  double last_ = 0;
};

std::string notes_of(const NamedRun& run, const char* before, const char* behind) {
  std::string out;
  for (const std::string& complaint : complaints(run.metrics)) {
    out += concat(before, escaped(run.name + ": " + complaint), behind);
  }
  return out;
}

}  // namespace

std::string comparison_page(const std::vector<NamedRun>& runs, const PageWords& words) {
  std::string notes;
  for (const NamedRun& run : runs) notes += notes_of(run, "<p class=\"note\">", "</p>\n");
  const bool empty =
      std::ranges::all_of(runs, [](const auto& run) { return run.metrics.rows() == 0; });
  const std::string charts = empty ? "" : OverlaidCharts(runs).all();
  return html_page(words.run, "Training runs", words,
                   concat(notes, "<div class=\"charts\">\n", charts, "</div>\n",
                          html_of(results_of(runs), "results", "Results"),
                          html_of(settings_of(runs), "settings", "Settings that differ")));
}

std::string comparison_text(const std::vector<NamedRun>& runs) {
  std::string out =
      text_of(results_of(runs), "results") + text_of(settings_of(runs), "settings that differ");
  for (const NamedRun& run : runs) {
    for (const std::string& complaint : complaints(run.metrics)) {
      out += concat("note: ", run.name, ": ", complaint, "\n");
    }
  }
  return core::readable(out);
}

}  // namespace fm::report
