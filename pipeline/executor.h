// The one loop that runs a program.
#pragma once

#include "pipeline/instruction.h"

namespace fm::pipeline {

// What an instruction does; answered by the engine. Called in program order by one thread.
class StepHandler {
 public:
  virtual ~StepHandler() = default;
  virtual void count() = 0;
  virtual void load(int micro) = 0;
  virtual void send_act(int micro) = 0;
  virtual void recv_act(int micro) = 0;
  virtual void send_grad(int micro) = 0;
  virtual void recv_grad(int micro) = 0;
  virtual void gather(int unit) = 0;
  virtual void release(int unit) = 0;
  virtual void forward(int micro, int unit) = 0;
  virtual void loss(int micro) = 0;
  virtual void backward_input(int micro, int unit) = 0;
  virtual void backward_weight(int micro, int unit) = 0;
  virtual void recompute(int micro, int unit) = 0;
  virtual void reduce(int micro, int unit) = 0;  // micro -1: once per step
  virtual void reduce_tied() = 0;
  virtual void norm() = 0;
  virtual void fetch(int unit) = 0;
  virtual void update(int unit) = 0;
  virtual void store(int unit) = 0;
  virtual void publish(int unit) = 0;
  virtual void report() = 0;
};

void execute(const Program& program, StepHandler& handler);

}  // namespace fm::pipeline
