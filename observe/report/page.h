// One self-contained HTML page about a run: no script, nothing from elsewhere.
#pragma once

#include <string>

#include "observe/report/metrics.h"
#include "observe/report/trace_step.h"

namespace fm::report {

struct PageWords {
  std::string run;      // its folder, as it was named
  std::string program;  // "fmengine 0.1.0"
  double now = 0;       // unix seconds
};

// The frame of a page; `what` follows the title: "Training run".
std::string html_page(const std::string& title, const char* what, const PageWords& words,
                      const std::string& body);

// `trace` may be null.
std::string page(const Metrics& metrics, const TraceStep* trace, const PageWords& words);

}  // namespace fm::report
