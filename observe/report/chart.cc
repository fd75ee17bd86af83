#include "observe/report/chart.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/check.h"
#include "observe/report/canvas.h"
#include "observe/report/numbers.h"

namespace fm::report {
namespace {

using core::concat;

constexpr double kHalf = 560;
constexpr double kWhole = 1144;
constexpr std::size_t kMostDots = 400;

// From 0 where that costs little room, so that the axis has its first tick.
Axis step_axis(double first, double last, bool wide) {
  const double begin = first < 0.02 * last ? 0 : first;
  return make_axis(AxisKind::kWhole, begin, last, wide ? 12 : 6);
}

// Nothing that is drawn is lost but dots beyond kMostDots, of which every n-th is drawn.
struct Drawn {
  const Series* series;
  std::vector<Point> points;
};

std::vector<Drawn> drawn(const Chart& chart, int columns) {
  std::vector<Drawn> all;
  for (const Series& series : chart.series) {
    std::vector<Point> points = thinned(series.x, series.y, columns);
    if (!points.empty()) all.push_back({&series, std::move(points)});
  }
  return all;
}

Axis value_axis(const Chart& chart, const std::vector<Drawn>& all) {
  std::vector<double> values;
  for (const Drawn& one : all) {
    for (const Point& point : one.points) values.push_back(point.y);
  }
  const AxisKind kind =
      chart.log_beyond > 0 ? kind_for(values, chart.log_beyond) : AxisKind::kLinear;
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const bool zero = chart.from_zero && kind == AxisKind::kLinear;
  return roomy_axis(kind, zero ? std::min(*least, 0.0) : *least,
                    zero ? std::max(*most, 0.0) : *most, 6);
}

void draw_points(Canvas& canvas, const Drawn& one) {
  const std::string colour = std::to_string(one.series->colour);
  canvas.line(one.points, "thin s" + colour);
  const std::size_t every = (one.points.size() + kMostDots - 1) / kMostDots;
  for (std::size_t at = 0; at < one.points.size(); at += every) {
    const Point& point = one.points[at];
    const std::string hint =
        concat("step ", with_commas(point.x), ": ", one.series->name, " ", plain(point.y, 5));
    canvas.dot(point, one.points.size() > 60 ? 2 : 3.5, "dot f" + colour, hint);
  }
}

std::string look_of(const Series& series) {
  const std::string colour = std::to_string(series.colour);
  switch (series.look) {
    case Look::kLine: return "line s" + colour;
    case Look::kFaintLine: return "faint s" + colour;
    case Look::kPoints: return "dot f" + colour;
  }
  return "";
}

// One mark per three columns at most.
void draw_marks(Canvas& canvas, std::span<const double> steps, void (Canvas::*mark)(double)) {
  double before = -1e9;
  for (const double step : steps) {
    const double at = canvas.x_of(step);
    if (at - before < 3) continue;
    (canvas.*mark)(step);
    before = at;
  }
}

}  // namespace

std::string draw(const Chart& chart) {
  const double width = chart.wide ? kWhole : kHalf;
  const std::vector<Drawn> all = drawn(chart, static_cast<int>(width) - 72);
  if (all.empty()) return "";
  const Axis y = value_axis(chart, all);
  Canvas canvas(step_axis(chart.first_step, chart.last_step, chart.wide), y, width,
                chart.wide ? 310 : 250);
  std::vector<LegendKey> keys;
  for (const Drawn& one : all) {
    keys.push_back({look_of(*one.series), one.series->name});
    if (one.series->look == Look::kPoints) {
      draw_points(canvas, one);
    } else {
      canvas.line(one.points, look_of(*one.series));
    }
  }
  draw_marks(canvas, chart.skipped, &Canvas::skipped);
  draw_marks(canvas, chart.starts, &Canvas::start);
  if (!chart.skipped.empty()) keys.push_back({"mark", "skipped step"});
  if (!chart.starts.empty()) keys.push_back({"start", "start of the program"});
  const std::string scale = y.kind == AxisKind::kLog ? "log axis" : "";
  const std::string unit = chart.unit + (chart.unit.empty() || scale.empty() ? "" : ", ") + scale;
  const bool explains = keys.size() > 1;
  return figure({chart.id, chart.title, unit, chart.wide},
                canvas.svg(chart.title) + (explains ? legend(keys) : ""));
}

namespace {

constexpr std::size_t kMostBars = 160;

// Means over neighbouring rows, so that there are few bars; each bar adds up to 1.
struct Bars {
  std::vector<double> ends;                 // of the bars, in steps; one more than bars
  std::vector<std::vector<double>> shares;  // of a name, of a bar
};

Bars bars_of(const Shares& shares) {
  const std::size_t rows = shares.steps.size();
  const std::size_t count = std::min(rows, kMostBars);
  Bars bars{{}, std::vector<std::vector<double>>(shares.names.size())};
  for (std::size_t bar = 0; bar < count; ++bar) {
    const std::size_t first = bar * rows / count;
    const std::size_t last = (bar + 1) * rows / count;
    std::vector<double> sums;
    double total = 0;
    for (std::size_t name = 0; name < shares.names.size(); ++name) {
      double of_name = 0;
      for (std::size_t row = first; row < last; ++row) of_name += shares.values[name][row];
      sums.push_back(of_name);
      total += of_name;
    }
    bars.ends.push_back(first == 0 ? shares.steps[0] - 1 : shares.steps[first - 1]);
    for (std::size_t name = 0; name < sums.size(); ++name) {
      bars.shares[name].push_back(total > 0 ? sums[name] / total : 0);
    }
  }
  bars.ends.push_back(shares.steps.back());
  return bars;
}

// Stairs up along the upper edge and back along the lower one.
std::string stairs(const Canvas& canvas, const Bars& bars, const std::vector<double>& lower,
                   const std::vector<double>& upper) {
  std::string path;
  std::string back;
  for (std::size_t bar = 0; bar < upper.size(); ++bar) {
    const std::string left = place_text(canvas.x_of(bars.ends[bar]));
    const std::string right = place_text(canvas.x_of(bars.ends[bar + 1]));
    path += concat(path.empty() ? "M" : "L", left, " ", place_text(canvas.y_of(upper[bar])), "H",
                   right);
    back = concat("L", right, " ", place_text(canvas.y_of(lower[bar])), "H", left, back);
  }
  return path + back + "z";
}

}  // namespace

std::string draw(const Shares& shares) {
  if (shares.steps.empty() || shares.names.empty()) return "";
  const Bars bars = bars_of(shares);
  Axis y{.least = 0, .most = 1, .ticks = {}};
  for (const int percent : {0, 25, 50, 75, 100}) {
    y.ticks.push_back({percent / 100.0, std::to_string(percent) + " %"});
  }
  Canvas canvas(step_axis(shares.first_step - 1, shares.last_step, true), y, kWhole, 260);
  std::vector<double> lower(bars.ends.size() - 1, 0.0);
  std::vector<LegendKey> keys;
  double whole = 0;
  for (const std::vector<float>& values : shares.values) {
    for (const float value : values) whole += value;
  }
  for (std::size_t name = 0; name < shares.names.size(); ++name) {
    double total = 0;
    for (const float value : shares.values[name]) total += value;
    if (!(total > 0)) continue;
    std::vector<double> upper = lower;
    for (std::size_t bar = 0; bar < upper.size(); ++bar) upper[bar] += bars.shares[name][bar];
    const int colour = colour_of(shares.names[name], static_cast<int>(name));
    canvas.raw(concat("<path class=\"area f", colour, "\" d=\"", stairs(canvas, bars, lower, upper),
                      "\"/>"));
    keys.push_back({concat("area f", colour),
                    shares.names[name] + formatted(" %.1f %%", 100 * total / whole)});
    lower = std::move(upper);
  }
  if (keys.empty()) return "";
  return figure({shares.id, shares.title, "", true}, canvas.svg(shares.title) + legend(keys));
}

}  // namespace fm::report
