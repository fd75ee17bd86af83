// The one loop that runs a program.
#pragma once

#include <span>
#include <vector>

#include "core/blackbox/black_box.h"
#include "pipeline/instruction.h"

namespace fm::pipeline {

// Runs an instruction; the engine implements it.
class StepHandler {
 public:
  virtual ~StepHandler() = default;
  // Called in program order by one thread; never with Backward.
  virtual void run(const Instruction& instruction) = 0;
};

// Backward runs as its two halves. `box`: records every instruction; may be null.
void execute(std::span<const Instruction> program, StepHandler& handler,
             core::BlackBox* box = nullptr);

// Every op by its number, as reports call it.
std::vector<core::BoxOp> op_names();

}  // namespace fm::pipeline
