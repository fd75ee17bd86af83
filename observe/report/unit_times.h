// What the units of a model took in a traced step, for a plan by measured times.
#pragma once

#include "observe/report/trace_step.h"

namespace fm::report {

// Microseconds; 0: the trace has none.
struct PhaseTimes {
  double forward = 0.0;
  double input = 0.0;   // backward to the input
  double weight = 0.0;  // backward to the weights
};

// Medians over micro-batches, units and ranks. Waits for a message or for weights are left out.
struct UnitTimes {
  PhaseTimes embedding;
  PhaseTimes block;
  double head = 0.0;  // the loss: forward and whole backward
  // From the end of a send, or from when the receiver waited, to when the message was there.
  double message = 0.0;
  // Of one micro-batch, of a rank's blocks together, head and embedding left out.
  PhaseTimes rank;
};

// Throws UserError (11) that names what the trace lacks; `path`: for the message.
UnitTimes unit_times(const TraceStep& trace, const std::string& path);

}  // namespace fm::report
