// Where the ranks of a step spent their time, phase by phase.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "observe/report/trace_step.h"

namespace fm::report {

struct TimelineEvent {
  double begin_us = 0;  // from the begin of the step on its first rank
  double end_us = 0;
  std::size_t kind = 0;  // in Timeline::kinds
};

struct Timeline {
  std::int64_t step = 0;
  double length_us = 0;
  std::vector<std::string> kinds;                            // phases, as in metrics.jsonl
  std::map<std::int64_t, std::vector<TimelineEvent>> ranks;  // instructions by their begin
};

Timeline timeline_of(const TraceStep& trace);

// A row per rank, coloured by what takes most of each column. "" when there is nothing.
std::string draw(const Timeline& timeline);

}  // namespace fm::report
