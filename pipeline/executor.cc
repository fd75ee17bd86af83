#include "pipeline/executor.h"

namespace fm::pipeline {
namespace {

using core::TraceKind;
using core::TraceScope;

constexpr core::TraceForm kInput = {"backward_input", TraceKind::kPart, {"micro", "unit"}};
constexpr core::TraceForm kWeight = {"backward_weight", TraceKind::kPart, {"micro", "unit"}};

void backward(const Instruction& instruction, StepHandler& handler) {
  {
    const TraceScope scope(kInput, {instruction.micro, instruction.unit});
    handler.run({Op::kBackwardInput, instruction.micro, instruction.unit});
  }
  const TraceScope scope(kWeight, {instruction.micro, instruction.unit});
  handler.run({Op::kBackwardWeight, instruction.micro, instruction.unit});
}

}  // namespace

void execute(std::span<const Instruction> program, StepHandler& handler) {
  for (const Instruction& instruction : program) {
    const TraceScope scope(row_of(instruction.op).trace, {instruction.micro, instruction.unit});
    if (instruction.op == Op::kBackward) {
      backward(instruction, handler);
    } else {
      handler.run(instruction);
    }
  }
}

}  // namespace fm::pipeline
