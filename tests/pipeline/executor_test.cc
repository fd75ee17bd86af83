#include "pipeline/executor.h"

#include <gtest/gtest.h>

namespace fm::pipeline {
namespace {

// Writes down what was called, in pictures.
class Recorder : public StepHandler {
 public:
  void run(const Instruction& at) override { calls_.push_back(at); }
  std::string calls() const { return print(calls_); }

 private:
  Program calls_;
};

TEST(Executor, CallsTheHandlerInProgramOrderWithItsOperands) {
  const std::string program =
      "K L0 ra1.4 g.2 F3.4 r.2 sa5.5 X6 rg7.1 C8.1 I8.1 W8.1 sg9.1 R.1 R2.3 Rt N f.1 u.1 s.1 p.1 "
      "O ";
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
