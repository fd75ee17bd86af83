#include "observe/report/trace_step.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "core/check.h"
#include "core/files/files.h"
#include "core/text.h"

namespace fm::report {
namespace {

using Place = std::pair<std::int64_t, std::int64_t>;
using Times = std::vector<double>;
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

// By (unit, micro-batch).

// 0 of nothing; of two in the middle the smaller.
double median(Times times) {
  if (times.empty()) return 0.0;
  const auto middle = times.begin() + (std::ssize(times) - 1) / 2;
  std::ranges::nth_element(times, middle);
  return *middle;
}

struct Phases {
  Times forward, input, weight;

  Times* of(const std::string& name) {
    if (name == "forward") return &forward;
    if (name == "backward_input") return &input;
    return name == "backward_weight" ? &weight : nullptr;
  }
  PhaseTimes medians() const { return {median(forward), median(input), median(weight)}; }
};

// Every instruction and part of a trace that computes.
template <class Body>
void for_each(const TraceStep& trace, Body body) {
  for (const auto* of_ranks : {&trace.ranks, &trace.parts}) {
    for (const auto& [rank, events] : *of_ranks) {
      for (const TraceInstruction& one : events) body(rank, one);
    }
  }
}

// The sums of a rank's blocks for a micro-batch, of all ranks and micro-batches.
PhaseTimes times_of_ranks(const TraceStep& trace) {
  std::map<std::tuple<std::string, std::int64_t, std::int64_t>, double> sums;  // name, rank, micro
  for_each(trace, [&](std::int64_t rank, const TraceInstruction& one) {
    if (one.unit > 0 && Phases().of(one.name) != nullptr) {
      sums[{one.name, rank, one.micro}] += one.end_us - one.ready_us;
    }
  });
  Phases all;
  for (const auto& [key, sum] : sums) all.of(std::get<0>(key))->push_back(sum);
  return all.medians();
}

// Senders and receivers of one message each, by rank: data ranks pair off in their order.
Times times_of_messages(const TraceStep& trace, const std::string& send,
                        const std::vector<std::string>& takes) {
  std::map<Place, Times> sent;
  std::map<Place, std::vector<const TraceInstruction*>> taken;
  for (const auto& [rank, events] : trace.ranks) {
    for (const TraceInstruction& one : events) {
      const Place place{one.unit, one.micro};
      if (one.name == send) sent[place].push_back(one.end_us);
      if (std::ranges::find(takes, one.name) != takes.end()) taken[place].push_back(&one);
    }
  }
  Times times;
  for (const auto& [place, ends] : sent) {
    const auto& takers = taken[place];
    for (std::size_t at = 0; at < std::min(ends.size(), takers.size()); ++at) {
      times.push_back(
          std::max(takers[at]->ready_us - std::max(ends[at], takers[at]->begin_us), 0.0));
    }
  }
  return times;
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

UnitTimes unit_times(const TraceStep& trace, const std::string& path) {
  Phases embedding, block;
  Times head;
  for_each(trace, [&](std::int64_t, const TraceInstruction& one) {
    const double spent = one.end_us - one.ready_us;
    if (one.name == "loss") head.push_back(spent);
    Times* const times = (one.unit == 0 ? embedding : block).of(one.name);
    if (times != nullptr && one.unit >= 0) times->push_back(spent);
  });
  for (const auto& [name, times] : {std::pair{"forward", &block.forward},
                                    {"backward_input", &block.input},
                                    {"backward_weight", &block.weight}}) {
    FM_DATA_CHECK(!times->empty(),
                  "a plan by measured times needs a trace of a training step; write one with "
                  "fmengine-train --trace (",
                  path, ": no ", name, " of a block)");
  }
  FM_DATA_CHECK(!head.empty(),
                "a plan by measured times needs a trace of all pipe ranks; write one with "
                "fmengine-train --trace (",
                path, ": no loss)");
  Times messages = times_of_messages(trace, "send_act", {"forward"});
  for (const double time : times_of_messages(trace, "send_grad", {"backward", "backward_input"})) {
    messages.push_back(time);
  }
  return {.embedding = embedding.medians(),
          .block = block.medians(),
          .head = median(std::move(head)),
          .message = median(std::move(messages)),
          .rank = times_of_ranks(trace)};
}

}  // namespace fm::report
