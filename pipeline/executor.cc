#include "pipeline/executor.h"

namespace fm::pipeline {

void execute(const Program& program, StepHandler& handler) {
  for (const Instruction& at : program) {
    switch (at.op) {
      case Op::kCount: handler.count(); break;
      case Op::kLoad: handler.load(at.micro); break;
      case Op::kSendAct: handler.send_act(at.micro); break;
      case Op::kRecvAct: handler.recv_act(at.micro); break;
      case Op::kSendGrad: handler.send_grad(at.micro); break;
      case Op::kRecvGrad: handler.recv_grad(at.micro); break;
      case Op::kGather: handler.gather(at.unit); break;
      case Op::kRelease: handler.release(at.unit); break;
      case Op::kForward: handler.forward(at.micro, at.unit); break;
      case Op::kLoss: handler.loss(at.micro); break;
      case Op::kBackward:
        handler.backward_input(at.micro, at.unit);
        handler.backward_weight(at.micro, at.unit);
        break;
      case Op::kBackwardInput: handler.backward_input(at.micro, at.unit); break;
      case Op::kBackwardWeight: handler.backward_weight(at.micro, at.unit); break;
      case Op::kRecompute: handler.recompute(at.micro, at.unit); break;
      case Op::kReduce: handler.reduce(at.micro, at.unit); break;
      case Op::kReduceTied: handler.reduce_tied(); break;
      case Op::kNorm: handler.norm(); break;
      case Op::kFetch: handler.fetch(at.unit); break;
      case Op::kUpdate: handler.update(at.unit); break;
      case Op::kStore: handler.store(at.unit); break;
      case Op::kPublish: handler.publish(at.unit); break;
      case Op::kReport: handler.report(); break;
    }
  }
}

}  // namespace fm::pipeline
