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

std::vector<core::BoxOp> op_names() {
  std::vector<core::BoxOp> names;
  for (std::size_t op = 0; op < kOpCount; ++op) {
    const OpRow& row = row_of(static_cast<Op>(op));
    names.push_back({std::string(row.picture), row.trace.name});
  }
  return names;
}

void execute(std::span<const Instruction> program, StepHandler& handler, core::BlackBox* box) {
  for (const Instruction& instruction : program) {
    if (box != nullptr) {
      box->begin_instruction(static_cast<int>(instruction.op), instruction.micro, instruction.unit);
    }
    const TraceScope scope(row_of(instruction.op).trace, {instruction.micro, instruction.unit});
    if (instruction.op == Op::kBackward) {
      backward(instruction, handler);
    } else {
      handler.run(instruction);
    }
  }
  if (box != nullptr) box->end_instructions();
}

}  // namespace fm::pipeline
