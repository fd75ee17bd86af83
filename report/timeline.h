// One step of a Chrome trace that fmengine-train --trace wrote (engine/step_trace.cc).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

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

// The last step that all ranks of the trace have. Throws UserError (11) when the file is missing,
// no JSON, or has no such step.
Timeline read_timeline(const std::string& path);

// A row per rank, coloured by what takes most of each column. "" when there is nothing.
std::string draw(const Timeline& timeline);

}  // namespace fm::report
