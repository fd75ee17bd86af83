#include "pipeline/executor.h"

#include <iterator>

#include "core/trace_recorder.h"

namespace fm::pipeline {
namespace {

using core::TraceKind;
using core::TraceScope;

constexpr core::TraceForm instruction(const char* name) {
  return {name, TraceKind::kInstruction, {"micro", "unit"}};
}

// By Op.
constexpr core::TraceForm kInstructions[] = {
    instruction("count"),
    instruction("load"),
    instruction("send_act"),
    instruction("recv_act"),
    instruction("send_grad"),
    instruction("recv_grad"),
    instruction("gather"),
    instruction("release"),
    instruction("forward"),
    instruction("loss"),
    instruction("backward"),
    instruction("backward_input"),
    instruction("backward_weight"),
    instruction("recompute"),
    instruction("reduce"),
    instruction("reduce_tied"),
    instruction("norm"),
    instruction("fetch"),
    instruction("update"),
    instruction("store"),
    instruction("publish"),
    instruction("report"),
};
static_assert(std::size(kInstructions) == static_cast<std::size_t>(Op::kReport) + 1);

constexpr core::TraceForm kInput = {"backward_input", TraceKind::kPart, {"micro", "unit"}};
constexpr core::TraceForm kWeight = {"backward_weight", TraceKind::kPart, {"micro", "unit"}};

void backward(const Instruction& at, StepHandler& handler) {
  {
    const TraceScope scope(kInput, {at.micro, at.unit});
    handler.backward_input(at.micro, at.unit);
  }
  const TraceScope scope(kWeight, {at.micro, at.unit});
  handler.backward_weight(at.micro, at.unit);
}

}  // namespace

void execute(const Program& program, StepHandler& handler) {
  for (const Instruction& at : program) {
    const TraceScope scope(kInstructions[static_cast<std::size_t>(at.op)], {at.micro, at.unit});
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
      case Op::kBackward: backward(at, handler); break;
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
