#include "pipeline/passes.h"

namespace fm::pipeline {

Program expand_units(const Program& scheduled, const Placement& units, int pipe_rank) {
  Program out;
  for (const Instruction& at : scheduled) {
    if (at.unit < 0) {
      out.push_back(at);
      continue;
    }
    const UnitRange body = units.body(pipe_rank, at.unit);
    for (int step = 0; step < body.count(); ++step) {
      const bool ascends = at.op == Op::kForward;
      out.push_back({at.op, at.micro, ascends ? body.first + step : body.last - 1 - step});
    }
  }
  return out;
}

}  // namespace fm::pipeline
