#include "engine/state/rate_change.h"

#include <gtest/gtest.h>

namespace fm::engine {
namespace {

// linear: 0.1 (1 - n / total) behind n updates.
TEST(RateChange, IsWhatTheNextStepWouldHaveHad) {
  TrainOptions now;
  now.optimizer.lr = 0.1;
  now.scheduler.rule = &optim::kLinear;
  now.scheduler.total_num_steps = 20;
  const std::string saved =
      R"({"lr": 0.1, "scheduler": "linear", "warmup_steps": 0, "num_training_steps": 10,
          "total_num_steps": 10})";
  EXPECT_EQ(rate_change(saved, now, 8),
            "the learning rate of the next step is 6.00e-02, it would have been 2.00e-02");
  now.scheduler.total_num_steps = 10;
  EXPECT_EQ(rate_change(saved, now, 8), "");
}

TEST(RateChange, OfWhatIsNotKnownSaysNothing) {
  const TrainOptions now;
  EXPECT_EQ(rate_change("", now, 8), "");
  EXPECT_EQ(rate_change("{}", now, 8), "");
  EXPECT_EQ(rate_change(R"({"lr": 0.1, "scheduler": "of another build"})", now, 8), "");
}

}  // namespace
}  // namespace fm::engine
