// What steps took in the start before, for a run that goes on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace fm::engine {

struct MeasuredTime {
  double seconds = 0.0;  // of a step, the median
  std::int64_t first = 0;
  std::int64_t last = 0;  // steps that it is of
};

// `start`: lines of a metrics.jsonl from that of a start on. Of its last 50 rows, but the first
// behind the start, which touches memory for the first time. Nothing where `now`, the line of this
// start, has other ranks, batches, lengths, numbers or layout.
std::optional<MeasuredTime> measured_time(const std::string& start, const std::string& now);

// "about 0.42s per step, 42s for 100 steps (the median of steps 51 to 100)"
std::string text_of(const MeasuredTime& time, std::int64_t steps);

}  // namespace fm::engine
