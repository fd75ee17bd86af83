// The numbers of a run that a reader wants first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "observe/report/metrics.h"

namespace fm::report {

struct Headline {
  std::string id;
  std::string name;
  std::string value;
  std::string detail;
};

// Those that the file has numbers for, in their order on the page.
std::vector<Headline> headlines(const Metrics& metrics);

// Over how many steps a loss is averaged in charts.
double loss_span(const Metrics& metrics);

struct Evaluation {
  double step = 0;
  double loss = 0;
  double perplexity = 0;
  double tokens = 0;  // trained until then, 0 when unknown
  bool best = false;
};
// At most `most`, evenly chosen, the best and the last one among them.
std::vector<Evaluation> evaluations(const Metrics& metrics, std::size_t most);

// What is wrong with the file, in sentences; empty when nothing is.
std::vector<std::string> complaints(const Metrics& metrics);

// For a terminal: headlines, starts, complaints.
std::string summary_text(const Metrics& metrics, const std::string& name);

}  // namespace fm::report
