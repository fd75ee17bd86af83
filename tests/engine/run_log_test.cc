#include "engine/run_log.h"

#include <gtest/gtest.h>

namespace fm::engine {
namespace {

TEST(StepLineText, EndsWithTheSplitOfTheStepsTime) {
  StepLine line;
  line.step = 2;
  line.last_step = 9;
  line.loss = 1.5;
  line.tokens = 1000;
  line.step_time_s = 0.2;
  line.flops = 1e9;
  line.phases.add(core::Phase::kForward, 60.0);   // of 200 ms: 30 %
  line.phases.add(core::Phase::kBackward, 99.2);  // 49.6 %
  line.phases.add(core::Phase::kGather, 0.8);     // 0.4 %: rounds to nothing
  line.phases.add(core::Phase::kOptimizer, 1.2);  // 0.6 %
  const std::string text = text_of(line);
  EXPECT_EQ(text.substr(0, 45), "step 2/9 loss 1.5000 lr 0.00e+00 grad_norm 0 ");
  EXPECT_NE(text.find(" tokens/s 5,000 "), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with(" mem 0 B | forward 30% backward 50% optimizer 1%")) << text;
}

TEST(Notes, Bf16IsCalledSlowWhereItIs) {
  const auto slow = [](core::DType element, bool is_fast) {
    TrainOptions options;
    options.element = element;
    const std::vector<std::string> notes = notes_of(options, is_fast);
    return notes.size() == 1 && notes[0].starts_with("bf16 is slow here, its products are ") &&
           notes[0].ends_with("; --precision fp32 is faster");
  };
  EXPECT_TRUE(slow(core::DType::kBF16, false));
  EXPECT_FALSE(slow(core::DType::kBF16, true));
  EXPECT_FALSE(slow(core::DType::kF32, false));
}

TEST(StepLineJson, HoldsMemoryFaultsAndPhases) {
  StepLine line;
  line.step = 2;
  line.step_time_s = 0.2;
  line.mem_peak = core::Bytes(4096);
  line.minor_faults = 17;
  line.phases.add(core::Phase::kOther, 1.25);
  const std::string text = json_of(line);
  EXPECT_NE(text.find("\"mem_peak_bytes\": 4096, \"minor_faults\": 17"), std::string::npos) << text;
  EXPECT_NE(text.find("\"other\": 1.250}"), std::string::npos) << text;
}

}  // namespace
}  // namespace fm::engine
