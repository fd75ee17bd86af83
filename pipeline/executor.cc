#include "pipeline/executor.h"

namespace fm::pipeline {
namespace {

using core::TraceKind;
using core::TraceScope;

constexpr core::TraceForm kInput = {"backward_input", TraceKind::kPart, {"micro", "unit"}};
constexpr core::TraceForm kWeight = {"backward_weight", TraceKind::kPart, {"micro", "unit"}};

void backward(const Instruction& at, StepHandler& handler) {
  {
    const TraceScope scope(kInput, {at.micro, at.unit});
    handler.run({Op::kBackwardInput, at.micro, at.unit});
  }
  const TraceScope scope(kWeight, {at.micro, at.unit});
  handler.run({Op::kBackwardWeight, at.micro, at.unit});
}

}  // namespace

void execute(std::span<const Instruction> program, StepHandler& handler) {
  for (const Instruction& at : program) {
    const TraceScope scope(row_of(at.op).trace, {at.micro, at.unit});
    if (at.op == Op::kBackward) {
      backward(at, handler);
    } else {
      handler.run(at);
    }
  }
}

}  // namespace fm::pipeline
