#include "observe/report/unit_times.h"

#include <algorithm>
#include <tuple>

#include "core/check.h"

namespace fm::report {
namespace {

using Times = std::vector<double>;
// By (unit, micro-batch).
using Place = std::pair<std::int64_t, std::int64_t>;

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
