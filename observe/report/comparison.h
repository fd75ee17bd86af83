// Several runs beside each other: their losses in one chart, what they reached, and in which
// settings they differ.
#pragma once

#include <string>
#include <vector>

#include "observe/report/metrics.h"
#include "observe/report/page.h"

namespace fm::report {

inline constexpr std::size_t kMostRuns = 8;  // lines that can be told apart

struct NamedRun {
  std::string name;
  Metrics metrics;
};

std::string comparison_page(const std::vector<NamedRun>& runs, const PageWords& words);
// The tables, for a terminal.
std::string comparison_text(const std::vector<NamedRun>& runs);

}  // namespace fm::report
