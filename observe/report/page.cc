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
    span_ = loss_span(metrics);
    loss_ = smoothed_from_start(metrics[Field::kLoss], span_);
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

// What the run is, in the words of its last start.
std::string header_of(const Metrics& metrics) {
  if (metrics.starts.empty() || metrics.starts.back().lines.empty()) return "";
  std::string out;
  for (const auto& [name, words] : metrics.starts.back().lines) {
    out += concat("<tr><td>", escaped(name), "</td><td class=\"text\">", escaped(words),
                  "</td></tr>\n");
  }
  return "<table id=\"run\">\n" + out + "</table>\n";
}

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

// f0 to f11 fill and s0 to s9 stroke with --0 to --11: forward, backward, reduce, gather,
// optimizer, loss, pipe, data, other, three for names that nobody knows.
constexpr const char* kColourSheet = R"(
:root{--page:#f6f7f8;--card:#fff;--ink:#1a1e23;--dim:#59626d;--line:#d5d9de;--grid:#e9ecef;
--0:#2f6fd0;--1:#e0662c;--2:#2a9164;--3:#7a55c7;--4:#d9a514;--5:#cf3f4f;--6:#179aa8;--7:#d468a4;
--8:#a7aeb6;--9:#8a6a4a;--10:#8fb33a;--11:#3f4a8c;--bad:#c62838;--badbg:#fdeeee;color-scheme:light}
@media screen and (prefers-color-scheme:dark){
:root{--page:#121518;--card:#1b1f24;--ink:#e7eaed;--dim:#a2abb5;--line:#3a424b;--grid:#2a3037;
--0:#6aa3f5;--1:#f28b55;--2:#4cbb8c;--3:#a88bec;--4:#e6bd4a;--5:#ef7380;--6:#4bc0cc;--7:#ec93c4;
--8:#6d7681;--9:#bd9b78;--10:#b5d45f;--11:#8f9ae0;--bad:#ff8089;--badbg:#3a2023;color-scheme:dark}}
.f0{fill:var(--0);background:var(--0)}.f1{fill:var(--1);background:var(--1)}
.f2{fill:var(--2);background:var(--2)}.f3{fill:var(--3);background:var(--3)}
.f4{fill:var(--4);background:var(--4)}.f5{fill:var(--5);background:var(--5)}
.f6{fill:var(--6);background:var(--6)}.f7{fill:var(--7);background:var(--7)}
.f8{fill:var(--8);background:var(--8)}.f9{fill:var(--9);background:var(--9)}
.f10{fill:var(--10);background:var(--10)}.f11{fill:var(--11);background:var(--11)}
.s0{stroke:var(--0);background:var(--0)}.s1{stroke:var(--1);background:var(--1)}
.s2{stroke:var(--2);background:var(--2)}.s3{stroke:var(--3);background:var(--3)}
.s4{stroke:var(--4);background:var(--4)}.s5{stroke:var(--5);background:var(--5)}
.s6{stroke:var(--6);background:var(--6)}.s7{stroke:var(--7);background:var(--7)}
.s9{stroke:var(--9);background:var(--9)}
)";

constexpr const char* kPageSheet = R"(
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
main{max-width:1240px;margin:0 auto;padding:28px 24px 40px}
header{margin-bottom:20px}
h1{font-size:28px;line-height:1.2;margin:0 0 4px;overflow-wrap:anywhere}
h2{font-size:18px;margin:28px 0 10px}
header p,footer{color:var(--dim);margin:0}
footer{margin-top:32px;font-size:13px}
.note{background:var(--badbg);border-left:4px solid var(--bad);padding:8px 12px;margin:0 0 12px}
.tiles{display:grid;grid-template-columns:repeat(4,1fr);gap:12px;margin:0 0 16px}
.tiles div{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:12px 14px}
dt{color:var(--dim);font-size:13px}
dd{margin:0;color:var(--dim);font-size:13px;line-height:1.35}
dd.value{color:var(--ink);font-size:25px;font-weight:600;line-height:1.3;
font-variant-numeric:tabular-nums}
.charts{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:16px}
figure{margin:0;background:var(--card);border:1px solid var(--line);border-radius:8px;
padding:14px 16px 12px;overflow-x:auto}
figure.wide{grid-column:1/-1}
figcaption{font-weight:600;margin-bottom:6px}
figcaption small{color:var(--dim);font-weight:400;font-size:.87em;margin-left:4px}
svg{display:block;width:100%;height:auto;overflow:visible}
figure.wide svg{min-width:700px}
table{border-collapse:collapse;min-width:60%;background:var(--card);
font-variant-numeric:tabular-nums;border:1px solid var(--line);font-size:14px}
th,td{padding:6px 12px;text-align:right;vertical-align:top;border-bottom:1px solid var(--grid)}
th{color:var(--dim);font-weight:600}
th:first-child,td:first-child{text-align:left}
td.text,th.text{text-align:left;overflow-wrap:anywhere}
tr.best td{font-weight:600}
.scroll{overflow-x:auto}
#run{width:100%;margin-bottom:18px}
details table{margin-top:8px;font-size:13px}
summary{cursor:pointer}
.changed td{font-weight:600}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:2px 18px;margin:8px 0 0;padding:0;
font-size:13px;color:var(--dim)}
.legend li{display:flex;align-items:center;gap:6px}
.legend i{width:18px;height:3px;border-radius:2px;flex:none}
.legend .faint{opacity:.4}
.legend .dot{width:9px;height:9px;border-radius:50%}
.legend .area{width:12px;height:12px}
.legend .mark{width:0;height:0;border:5px solid transparent;border-bottom:9px solid var(--bad);
border-top:0}
.legend .start{width:0;height:13px;border-left:2px dashed var(--dim);border-radius:0}
)";

constexpr const char* kPictureSheet = R"(
svg text{font-size:12px;fill:var(--dim);font-variant-numeric:tabular-nums}
text.y{text-anchor:end;dominant-baseline:middle}
text.x{text-anchor:middle}
.grid,.axis,.tick,.start,.line,.faint,.thin{fill:none;stroke-linejoin:round;stroke-linecap:round}
.grid{stroke:var(--grid)}
.axis,.tick{stroke:var(--line)}
svg .start{stroke:var(--dim);stroke-dasharray:3 4;stroke-linecap:butt}
.line{stroke-width:2}
svg .faint{stroke-width:1;opacity:.4}
.thin{stroke-width:1;opacity:.6}
.area{shape-rendering:crispEdges}
svg .dot{stroke:var(--card);stroke-width:1}
svg .mark{fill:var(--bad)}
.idle{fill:var(--grid)}
@media (max-width:860px){
.charts{grid-template-columns:minmax(0,1fr)}.tiles{grid-template-columns:repeat(2,1fr)}}
@media print{
@page{margin:12mm}
body{background:#fff;font-size:12px;-webkit-print-color-adjust:exact;print-color-adjust:exact}
main{max-width:none;padding:0}
.charts{grid-template-columns:repeat(2,minmax(0,1fr));gap:10px}
.tiles{grid-template-columns:repeat(4,1fr);gap:8px}
dt,dd,.legend,table,details table{font-size:11px}
th,td{padding:3px 10px}
dd.value{font-size:19px}
svg text{font-size:16px}
figure,.tiles div,tr{break-inside:avoid}
figure{overflow:hidden}
figure.wide svg{min-width:0}
h2{break-after:avoid}}
)";

// For screens (light, dark) and paper.
std::string style() { return std::string(kColourSheet) + kPageSheet + kPictureSheet; }

}  // namespace

std::string page(const Metrics& metrics, const TraceStep* trace, const PageWords& words) {
  std::string notes;
  for (const std::string& complaint : complaints(metrics)) {
    notes += concat("<p class=\"note\">", escaped(complaint), "</p>\n");
  }
  const std::string charts = Charts(metrics).all() + (trace == nullptr ? "" : pictures_of(*trace));
  return html_page(words.run, "Training run", words,
                   concat(notes, header_of(metrics), tiles(metrics), "<div class=\"charts\">\n",
                          charts, "</div>\n", evaluation_table(metrics), start_table(metrics)));
}

std::string html_page(const std::string& title, const char* what, const PageWords& words,
                      const std::string& body) {
  return concat(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
      escaped(title), ": ", core::lower(what), "</title>\n<style>", style(),
      "</style></head>\n<body><main>\n<header><h1>", escaped(title), "</h1><p>", what, ", as of ",
      date(words.now), "</p></header>\n", body, "<footer>Made by ", escaped(words.program),
      " from metrics.jsonl. Lines are thinned to what the pixels can show; the least and the "
      "greatest values stay.</footer>\n</main></body></html>\n");
}

}  // namespace fm::report
