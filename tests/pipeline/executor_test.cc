#include "pipeline/executor.h"

#include <gtest/gtest.h>

#include "core/check.h"

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

// An instruction that throws stays open.
TEST(Executor, SaysInTheBlackBoxWhatItRuns) {
  class Failing : public StepHandler {
   public:
    explicit Failing(core::BlackBox& box) : box_(box) {}
    void run(const Instruction& at) override {
      said += box_.whereabouts() + "; ";
      if (at.op == Op::kReduce) throw core::BugError("fails");
    }
    std::string said;

   private:
    core::BlackBox& box_;
  };
  core::BlackBox box;
  box.name_ops(op_names());
  box.name_units({"embedding", "layers.0"});
  box.begin_phase(core::RunPhase::kStep, 4);
  Failing handler(box);
  execute(parse("g.1 F0.1"), handler, &box);
  EXPECT_EQ(box.whereabouts(), "step 4");
  EXPECT_THROW(execute(parse("B3.1 R.1 N"), handler, &box), core::BugError);
  EXPECT_EQ(handler.said,
            "step 4, gather g.1 (layers.0); step 4, forward F0.1 (layers.0); "
            "step 4, backward B3.1 (layers.0); step 4, backward B3.1 (layers.0); "
            "step 4, reduce R.1 (layers.0); ");
  EXPECT_EQ(box.whereabouts(), "step 4, reduce R.1 (layers.0)");
}

}  // namespace
}  // namespace fm::pipeline
