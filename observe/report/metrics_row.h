// One row of metrics.jsonl.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "observe/report/metrics.h"

namespace fm::report {

// Names beyond these are one phase, "further": damaged files must not cost memory without end.
inline constexpr std::size_t kMostPhases = 15;

struct Row {
  std::array<double, kFieldCount> values;
  std::array<float, kMostPhases + 1> phase_ms;
};

// Invariant: takes the same lines with the same numbers whether they are plain (as fmengine writes
//            them, read at some GB a second) or anything else that JSON allows.
class RowReader {
 public:
  // False when `line` is no JSON object, or a known field has a wrong type.
  bool read(std::string_view line, Row& row);
  // As read(), by the general JSON library alone.
  bool read_any(std::string_view line, Row& row);
  const std::vector<std::string>& phases() const { return phases_; }

 private:
  bool read_plain(std::string_view line, Row& row);
  std::size_t phase_at(std::string_view name);

  std::vector<std::string> phases_;
};

}  // namespace fm::report
