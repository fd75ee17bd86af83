#include "observe/report/trace_step.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/check.h"
#include "core/files/files.h"
#include "core/text.h"

namespace fm::report {
namespace {

using nlohmann::json;

constexpr double kMostMicroseconds = 1e15;  // beyond, a trace is damaged; of ranks and steps, too
constexpr double kAtOnce = 0.02;            // of an instruction: what begins so early, begins it

struct TimeRange {
  double begin = 0;
  double end = 0;
};

struct RankTrace {
  std::map<std::int64_t, TimeRange> steps;
  std::vector<TraceInstruction> instructions, parts;  // times as in the file
  std::vector<TimeRange> collectives;
};

std::optional<double> number_in(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  const auto value = found->get<double>();
  return std::abs(value) > kMostMicroseconds ? std::nullopt : std::optional(value);
}

std::string text_in(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::optional<double> argument_of(const json& event, const char* name) {
  const auto arguments = event.find("args");
  if (arguments == event.end() || !arguments->is_object()) return std::nullopt;
  return number_in(*arguments, name);
}

void take(const json& event, std::map<std::int64_t, RankTrace>& ranks) {
  const std::string category = text_in(event, "cat");
  const bool part = category == "part";
  const bool instruction = category == "instruction";
  if (category != "step" && !instruction && !part && category != "collective") return;
  const auto begin = number_in(event, "ts");
  const auto spent = number_in(event, "dur");
  const auto rank = number_in(event, "pid");
  if (!begin || !spent || !rank || *spent < 0) return;
  RankTrace& of = ranks[static_cast<std::int64_t>(*rank)];
  const TimeRange time{*begin, *begin + *spent};
  const auto whole = [&](const char* name) {
    return static_cast<std::int64_t>(argument_of(event, name).value_or(-1));
  };
  if (instruction || part) {
    (part ? of.parts : of.instructions)
        .push_back({.name = text_in(event, "name"),
                    .micro = whole("micro"),
                    .unit = whole("unit"),
                    .begin_us = time.begin,
                    .end_us = time.end,
                    .ready_us = time.begin});
  } else if (category == "collective") {
    of.collectives.push_back(time);
  } else if (argument_of(event, "step")) {
    of.steps[whole("step")] = time;
  }
}

struct Trace {
  std::map<std::int64_t, RankTrace> ranks;
  std::string prediction;
};

Trace read_trace(const std::string& path) {
  struct stat opened {};
  ::close(core::open_regular(path, opened));
  std::ifstream file(path, std::ios::binary);
  Trace trace;
  // An event is at depth 2 of {"traceEvents": [...]}, at 1 of a bare list; none of them is kept.
  bool shallow = true;
  const auto keep = [&](int depth, json::parse_event_t at, json& parsed) {
    shallow = shallow && depth <= core::kMostBrackets;
    if (!shallow) return false;  // nothing is built any more
    if (at != json::parse_event_t::object_end || depth < 1 || depth > 2) return true;
    if (!parsed.is_object() || !parsed.contains("ph")) return true;
    take(parsed, trace.ranks);
    return false;
  };
  const json rest = json::parse(file, keep, false);
  FM_DATA_CHECK(shallow && !rest.is_discarded(), "a trace must be JSON, whole, with at most ",
                core::kMostBrackets,
                " levels of brackets; write it again with fmengine-train --trace (", path, ")");
  if (!rest.is_object() || !rest.contains("otherData")) return trace;
  const json& other = rest["otherData"];
  if (other.is_object() && other.contains("prediction")) {
    trace.prediction = other["prediction"].dump(-1, ' ', false, json::error_handler_t::replace);
  }
  return trace;
}

std::optional<std::int64_t> last_shared_step(const std::map<std::int64_t, RankTrace>& ranks) {
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

// Messages that an instruction begins with are its wait. Both lists by their begin.
void find_waits(std::vector<TraceInstruction>& instructions,
                const std::vector<TimeRange>& messages) {
  auto next = messages.begin();
  for (TraceInstruction& one : instructions) {
    while (next != messages.end() && next->begin < one.begin_us) ++next;
    const double soon = kAtOnce * (one.end_us - one.begin_us);
    for (; next != messages.end() && next->end <= one.end_us; ++next) {
      if (next->begin > one.ready_us + soon) break;
      one.ready_us = std::max(one.ready_us, next->end);
    }
  }
}

// `messages` by their begin.
std::vector<TraceInstruction> within(std::vector<TraceInstruction>& instructions,
                                     const std::vector<TimeRange>& messages, TimeRange whole,
                                     double zero) {
  std::vector<TraceInstruction> out;
  for (TraceInstruction& one : instructions) {
    if (one.begin_us < whole.begin || one.end_us > whole.end) continue;
    out.push_back(std::move(one));
  }
  std::ranges::sort(out, {}, &TraceInstruction::begin_us);
  find_waits(out, messages);
  for (TraceInstruction& one : out) {
    one.begin_us -= zero;
    one.end_us -= zero;
    one.ready_us -= zero;
  }
  return out;
}

}  // namespace

TraceStep read_trace_step(const std::string& path) {
  Trace trace = read_trace(path);
  const std::optional<std::int64_t> step = last_shared_step(trace.ranks);
  FM_DATA_CHECK(step,
                "a trace must hold a step of every rank; write it with fmengine-train --trace "
                "(",
                path, ")");
  TraceStep out{.step = *step, .ranks = {}, .parts = {}, .prediction = std::move(trace.prediction)};
  double zero = HUGE_VAL;
  for (const auto& [rank, of] : trace.ranks) zero = std::min(zero, of.steps.at(*step).begin);
  for (auto& [rank, of] : trace.ranks) {
    const TimeRange whole = of.steps.at(*step);
    out.length_us = std::max(out.length_us, whole.end - zero);
    std::ranges::sort(of.collectives, {}, &TimeRange::begin);
    out.ranks[rank] = within(of.instructions, of.collectives, whole, zero);
    out.parts[rank] = within(of.parts, of.collectives, whole, zero);
  }
  return out;
}

}  // namespace fm::report
