#include "pipeline/passes.h"

namespace fm::pipeline {

Program expand_units(const Program& scheduled, const UnitRow& row, int pipe_rank) {
  const UnitRange body = row.body(pipe_rank);
  Program out;
  for (const Instruction& at : scheduled) {
    if (at.op == Op::kForward) {
      for (int unit = body.first; unit < body.last; ++unit) out.push_back({at.op, at.micro, unit});
    } else if (at.unit >= 0) {
      for (int unit = body.last - 1; unit >= body.first; --unit) {
        out.push_back({at.op, at.micro, unit});
      }
    } else {
      out.push_back(at);
    }
  }
  return out;
}

}  // namespace fm::pipeline
