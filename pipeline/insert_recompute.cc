#include "pipeline/passes.h"

namespace fm::pipeline {

Program insert_recompute(const Program& program, const Placement& units) {
  Program out;
  for (const Instruction& at : program) {
    const bool needs_kept = at.op == Op::kBackward || at.op == Op::kBackwardInput;
    if (needs_kept && units.is_block(at.unit)) out.push_back({Op::kRecompute, at.micro, at.unit});
    out.push_back(at);
  }
  return out;
}

}  // namespace fm::pipeline
