// The one loop that runs a program.
#pragma once

#include <span>

#include "pipeline/instruction.h"

namespace fm::pipeline {

// Runs an instruction; the engine implements it.
class StepHandler {
 public:
  virtual ~StepHandler() = default;
  // Called in program order by one thread; never with Backward.
  virtual void run(const Instruction& instruction) = 0;
};

// Backward runs as its two halves.
void execute(std::span<const Instruction> program, StepHandler& handler);

}  // namespace fm::pipeline
