#include "report/timeline.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>

#include "core/check.h"
#include "core/files.h"
#include "report/canvas.h"
#include "report/html.h"
#include "report/numbers.h"

namespace fm::report {
namespace {

using core::concat;
using nlohmann::json;

constexpr std::size_t kMostRanks = 64;
constexpr std::size_t kFewRanks = 16;       // whose rows may be high
constexpr double kMostMicroseconds = 1e15;  // beyond, a trace is damaged; of ranks and steps, too

// Instructions (pipeline/instruction.cc) by the phase that takes their time.
const std::map<std::string, std::string, std::less<>> kPhaseOf = {
    {"count", "data"},      {"load", "data"},          {"send_act", "pipe"},
    {"recv_act", "pipe"},   {"send_grad", "pipe"},     {"recv_grad", "pipe"},
    {"gather", "gather"},   {"release", "gather"},     {"publish", "gather"},
    {"forward", "forward"}, {"recompute", "forward"},  {"loss", "loss"},
    {"reduce", "reduce"},   {"reduce_tied", "reduce"}, {"norm", "reduce"},
    {"update", "optimizer"}};

struct Range {
  double begin = 0;
  double end = 0;
};

struct Instruction {
  Range time;
  std::string_view phase;
};

struct Rank {
  std::map<std::int64_t, Range> steps;
  std::vector<Instruction> instructions;
};

std::string_view phase_of(std::string_view name) {
  const auto found = kPhaseOf.find(name);
  if (found != kPhaseOf.end()) return found->second;
  return name.starts_with("backward") ? "backward" : "other";
}

std::optional<double> number_in(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

std::string text_in(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

void take(const json& event, std::map<std::int64_t, Rank>& ranks) {
  const std::string category = text_in(event, "cat");
  if (category != "step" && category != "instruction") return;
  const auto begin = number_in(event, "ts");
  const auto spent = number_in(event, "dur");
  const auto rank = number_in(event, "pid");
  if (!begin || !spent || !rank || *spent < 0) return;
  if (std::max({std::abs(*begin), *spent, std::abs(*rank)}) > kMostMicroseconds) return;
  Rank& of = ranks[static_cast<std::int64_t>(*rank)];
  const Range time{*begin, *begin + *spent};
  if (category == "instruction") {
    of.instructions.push_back({time, phase_of(text_in(event, "name"))});
    return;
  }
  const auto arguments = event.find("args");
  if (arguments == event.end() || !arguments->is_object()) return;
  const auto step = number_in(*arguments, "step");
  if (step && std::abs(*step) < kMostMicroseconds)
    of.steps[static_cast<std::int64_t>(*step)] = time;
}

std::map<std::int64_t, Rank> ranks_in(const std::string& path) {
  struct stat opened {};
  ::close(core::open_regular(path, opened));
  std::ifstream file(path, std::ios::binary);
  std::map<std::int64_t, Rank> ranks;
  // An event is at depth 2 of {"traceEvents": [...]}, at 1 of a bare list; none of them is kept.
  const auto keep = [&](int depth, json::parse_event_t at, json& parsed) {
    if (at != json::parse_event_t::object_end || depth < 1 || depth > 2) return true;
    if (!parsed.is_object() || !parsed.contains("ph")) return true;
    take(parsed, ranks);
    return false;
  };
  const json rest = json::parse(file, keep, false);
  FM_DATA_CHECK(!rest.is_discarded(),
                "a trace must be JSON, whole; write it again with "
                "fmengine-train --trace (",
                path, ")");
  return ranks;
}

std::optional<std::int64_t> last_shared_step(const std::map<std::int64_t, Rank>& ranks) {
  std::map<std::int64_t, std::size_t> count;
  for (const auto& [rank, of] : ranks) {
    for (const auto& [step, time] : of.steps) ++count[step];
  }
  std::optional<std::int64_t> last;
  for (const auto& [step, times] : count) {
    if (times == ranks.size()) last = step;
  }
  return last;
}

}  // namespace

Timeline read_timeline(const std::string& path) {
  const std::map<std::int64_t, Rank> ranks = ranks_in(path);
  const std::optional<std::int64_t> step = last_shared_step(ranks);
  FM_DATA_CHECK(step,
                "a trace must hold a step of every rank; write it with fmengine-train --trace "
                "(",
                path, ")");
  Timeline timeline{.step = *step, .kinds = {}, .ranks = {}};
  double begin = HUGE_VAL;
  for (const auto& [rank, of] : ranks) begin = std::min(begin, of.steps.at(*step).begin);
  for (const auto& [rank, of] : ranks) {
    const Range whole = of.steps.at(*step);
    timeline.length_us = std::max(timeline.length_us, whole.end - begin);
    std::vector<TimelineEvent>& events = timeline.ranks[rank];
    for (const Instruction& one : of.instructions) {
      if (one.time.begin < whole.begin || one.time.end > whole.end) continue;
      const auto kind = std::find(timeline.kinds.begin(), timeline.kinds.end(), one.phase);
      events.push_back({one.time.begin - begin, one.time.end - begin,
                        static_cast<std::size_t>(kind - timeline.kinds.begin())});
      if (kind == timeline.kinds.end()) timeline.kinds.emplace_back(one.phase);
    }
    std::sort(events.begin(), events.end(),
              [](const auto& a, const auto& b) { return a.begin_us < b.begin_us; });
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

std::vector<Key> keys_of(const Timeline& timeline) {
  std::vector<double> spent(timeline.kinds.size(), 0.0);
  for (const auto& [rank, events] : timeline.ranks) {
    for (const TimelineEvent& event : events) spent[event.kind] += event.end_us - event.begin_us;
  }
  const double whole = timeline.length_us * static_cast<double>(timeline.ranks.size());
  std::vector<std::size_t> order(spent.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return spent[a] > spent[b]; });
  std::vector<Key> keys;
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
