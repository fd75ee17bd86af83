#include "observe/report/timeline.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

#include "core/check.h"
#include "observe/report/canvas.h"
#include "observe/report/numbers.h"

namespace fm::report {
namespace {

using core::concat;

constexpr std::size_t kMostRanks = 64;
constexpr std::size_t kFewRanks = 16;  // whose rows may be high

// Instructions (pipeline/instruction.cc) by the phase that takes their time.
const std::map<std::string, std::string, std::less<>> kPhaseOf = {
    {"count", "data"},       {"load", "data"},          {"send_act", "pipe"},
    {"recv_act", "pipe"},    {"send_grad", "pipe"},     {"recv_grad", "pipe"},
    {"gather", "gather"},    {"release", "gather"},     {"publish", "gather"},
    {"forward", "forward"},  {"recompute", "forward"},  {"loss", "loss"},
    {"reduce", "reduce"},    {"reduce_tied", "reduce"}, {"norm", "reduce"},
    {"norm_part", "reduce"}, {"recv_norm", "pipe"},     {"send_norm", "pipe"},
    {"validate", "pipe"},    {"update", "optimizer"},   {"rest", "reduce"},
    {"fetch", "optimizer"},  {"store", "optimizer"}};

std::string_view phase_of(std::string_view name) {
  const auto found = kPhaseOf.find(name);
  if (found != kPhaseOf.end()) return found->second;
  return name.starts_with("backward") ? "backward" : "other";
}

}  // namespace

Timeline timeline_of(const TraceStep& trace) {
  Timeline timeline{.step = trace.step, .length_us = trace.length_us, .kinds = {}, .ranks = {}};
  for (const auto& [rank, instructions] : trace.ranks) {
    std::vector<TimelineEvent>& events = timeline.ranks[rank];
    for (const TraceInstruction& one : instructions) {
      const std::string_view phase = phase_of(one.name);
      const auto kind = std::find(timeline.kinds.begin(), timeline.kinds.end(), phase);
      events.push_back(
          {one.begin_us, one.end_us, static_cast<std::size_t>(kind - timeline.kinds.begin())});
      if (kind == timeline.kinds.end()) timeline.kinds.emplace_back(phase);
    }
  }
  return timeline;
}

namespace {

constexpr double kLabel = 64;
constexpr double kWidth = 1144;
constexpr double kEnd = kWidth - 14;
constexpr double kColumn = 0.5;  // the narrowest that is drawn

// Time per kind in each column, of which the greatest colours it.
std::string row_of(const Timeline& timeline, const std::vector<TimelineEvent>& events, double y,
                   double height) {
  const auto columns = static_cast<std::size_t>((kEnd - kLabel) / kColumn);
  const double width = std::max(timeline.length_us, 1e-9) / static_cast<double>(columns);
  const std::size_t kinds = timeline.kinds.size();
  std::vector<double> time(columns * kinds, 0.0);
  for (const TimelineEvent& event : events) {
    const double last = std::min(event.end_us / width, static_cast<double>(columns));
    for (double at = event.begin_us / width; at < last; at = std::floor(at) + 1) {
      time[static_cast<std::size_t>(at) * kinds + event.kind] +=
          std::min(std::floor(at) + 1, last) - at;
    }
  }
  std::string out;
  std::size_t begun = 0;
  std::size_t kind_before = kinds;
  for (std::size_t column = 0; column <= columns; ++column) {
    std::size_t kind = kinds;  // nothing
    double most = 0.1;         // below, the column stays empty
    for (std::size_t one = 0; column < columns && one < kinds; ++one) {
      if (time[column * kinds + one] > most) most = time[column * kinds + (kind = one)];
    }
    if (kind == kind_before) continue;
    if (kind_before != kinds) {
      out += concat("<path class=\"f", colour_of(timeline.kinds[kind_before], 0), "\" d=\"M",
                    place_text(kLabel + kColumn * static_cast<double>(begun)), " ", y, "H",
                    place_text(kLabel + kColumn * static_cast<double>(column)), "v", height, "H",
                    place_text(kLabel + kColumn * static_cast<double>(begun)), "z\"/>");
    }
    begun = column;
    kind_before = kind;
  }
  return out;
}

std::string time_axis(double length_ms, double y) {
  std::string out;
  const Axis axis = make_axis(AxisKind::kLinear, 0, length_ms, 12);
  for (const Tick& tick : axis.ticks) {
    const double x = kLabel + axis.place(tick.value) * (kEnd - kLabel);
    out +=
        concat("<path class=\"tick\" d=\"M", place_text(x), " ", y, "v5\"/><text class=\"x\" x=\"",
               place_text(x), "\" y=\"", y + 17, "\">", tick.text, "</text>");
  }
  return out + concat("<text class=\"x name\" x=\"", (kLabel + kEnd) / 2, "\" y=\"", y + 33,
                      "\">ms</text>");
}

std::vector<LegendKey> keys_of(const Timeline& timeline) {
  std::vector<double> spent(timeline.kinds.size(), 0.0);
  for (const auto& [rank, events] : timeline.ranks) {
    for (const TimelineEvent& event : events) spent[event.kind] += event.end_us - event.begin_us;
  }
  const double whole = timeline.length_us * static_cast<double>(timeline.ranks.size());
  std::vector<std::size_t> order(spent.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return spent[a] > spent[b]; });
  std::vector<LegendKey> keys;
  for (const std::size_t kind : order) {
    const double percent = 100 * spent[kind] / whole;
    if (percent < 0.05) continue;
    keys.push_back({concat("area f", colour_of(timeline.kinds[kind], 0)),
                    timeline.kinds[kind] + formatted(" %.1f %%", percent)});
  }
  return keys;
}

}  // namespace

std::string draw(const Timeline& timeline) {
  if (timeline.ranks.empty()) return "";
  std::string rows;
  double y = 4;
  std::size_t drawn = 0;
  const double height = timeline.ranks.size() > kFewRanks ? 11 : 18;
  for (const auto& [rank, events] : timeline.ranks) {
    if (drawn++ == kMostRanks) break;
    rows += concat("<path class=\"idle\" d=\"M", kLabel, " ", y, "H", kEnd, "v", height, "H",
                   kLabel, "z\"/><text class=\"y\" x=\"", kLabel - 8, "\" y=\"", y + height / 2,
                   "\">rank ", rank, "</text>", row_of(timeline, events, y, height));
    y += height + 3;
  }
  const std::string title =
      concat("Timeline of step ", timeline.step, ", ", duration(timeline.length_us * 1e-6));
  const std::string more =
      timeline.ranks.size() > kMostRanks
          ? concat("the first ", kMostRanks, " of ", timeline.ranks.size(), " ranks; shares of all")
          : "shares of all ranks' time";
  return figure({"timeline", title, more, true},
                concat("<svg viewBox=\"0 0 ", kWidth, " ", y + 40, "\" role=\"img\" aria-label=\"",
                       title, "\">", rows, time_axis(timeline.length_us * 1e-3, y), "</svg>",
                       legend(keys_of(timeline))));
}

}  // namespace fm::report
