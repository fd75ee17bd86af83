// The timeline of all pipe ranks as one SVG: a row per rank, a box per micro-batch and chunk.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "observe/report/pipe_panel.h"

namespace fm::report {

// Panels stand above one another on one axis of time.
struct PipePicture {
  std::string title;
  std::string unit;  // of all times
  std::vector<PipePanel> panels;
};

// The prediction that a plan made, or that the trace carries, above what the trace shows; either
// may be missing. With both, predicted times are scaled so that the ranks compute as long in both.
PipePicture pipe_picture(const PipePrediction* predicted, const TraceStep* trace);

// A file of its own: valid XML, a white ground, nothing from elsewhere.
std::string svg_file(const PipePicture& picture);
// Of a page, whose colours it takes. "" when there is nothing to see: no second rank.
std::string figure_of(const PipePicture& picture);

}  // namespace fm::report
