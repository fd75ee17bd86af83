#include "pipeline/executor.h"

#include <gtest/gtest.h>

namespace fm::pipeline {
namespace {

// Writes down what was called, in pictures.
class Recorder : public StepHandler {
 public:
  void count() override { saw(Op::kCount); }
  void load(int micro) override { saw(Op::kLoad, micro); }
  void send_act(int micro) override { saw(Op::kSendAct, micro); }
  void recv_act(int micro) override { saw(Op::kRecvAct, micro); }
  void send_grad(int micro) override { saw(Op::kSendGrad, micro); }
  void recv_grad(int micro) override { saw(Op::kRecvGrad, micro); }
  void gather(int unit) override { saw(Op::kGather, -1, unit); }
  void release(int unit) override { saw(Op::kRelease, -1, unit); }
  void forward(int micro, int unit) override { saw(Op::kForward, micro, unit); }
  void loss(int micro) override { saw(Op::kLoss, micro); }
  void backward_input(int micro, int unit) override { saw(Op::kBackwardInput, micro, unit); }
  void backward_weight(int micro, int unit) override { saw(Op::kBackwardWeight, micro, unit); }
  void recompute(int micro, int unit) override { saw(Op::kRecompute, micro, unit); }
  void reduce(int micro, int unit) override { saw(Op::kReduce, micro, unit); }
  void reduce_tied() override { saw(Op::kReduceTied); }
  void norm() override { saw(Op::kNorm); }
  void fetch(int unit) override { saw(Op::kFetch, -1, unit); }
  void update(int unit) override { saw(Op::kUpdate, -1, unit); }
  void store(int unit) override { saw(Op::kStore, -1, unit); }
  void publish(int unit) override { saw(Op::kPublish, -1, unit); }
  void report() override { saw(Op::kReport); }

  std::string calls() const { return print(calls_); }

 private:
  void saw(Op op, int micro = -1, int unit = -1) { calls_.push_back({op, micro, unit}); }
  Program calls_;
};

TEST(Executor, CallsTheHandlerInProgramOrderWithItsOperands) {
  const std::string program =
      "K L0 ra1 g.2 F3.4 r.2 sa5 X6 rg7 C8.1 I8.1 W8.1 sg9 R.1 R2.3 Rt N f.1 u.1 s.1 p.1 O ";
  Recorder recorder;
  execute(parse(program), recorder);
  EXPECT_EQ(recorder.calls(), program);
}

TEST(Executor, BackwardIsItsInputHalfThenItsWeightHalf) {
  Recorder recorder;
  execute(parse("B0.3"), recorder);
  EXPECT_EQ(recorder.calls(), "I0.3 W0.3 ");
}

}  // namespace
}  // namespace fm::pipeline
