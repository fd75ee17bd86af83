#include "engine/shown/measured_time.h"

#include <gtest/gtest.h>

#include "core/check.h"

namespace fm::engine {
namespace {

std::string start_with(int ranks, int batch) {
  return core::concat(R"({"start": {"ranks": )", ranks, R"(, "facts": {"train_batch_size": )",
                      batch, R"(, "--max_seq_len": 128}}})");
}

// The first takes 9 s, the others 1 to 4 s.
std::string rows(int count) {
  std::string out = "\n";
  for (int step = 1; step <= count; ++step) {
    out +=
        core::concat("{\"step\": ", step, ", \"step_time\": ", step == 1 ? 9 : step % 4 + 1, "}\n");
  }
  return out;
}

TEST(MeasuredTime, IsTheMedianOfTheLastStepsButTheFirst) {
  const auto few = measured_time(start_with(2, 8) + rows(4), start_with(2, 8));
  ASSERT_TRUE(few);
  EXPECT_EQ(few->seconds, 3.0);  // of 3, 4, 1
  EXPECT_EQ(few->first, 2);
  const auto many = measured_time(start_with(2, 8) + rows(100), start_with(2, 8));
  ASSERT_TRUE(many);
  EXPECT_EQ(many->first, 51);
  EXPECT_EQ(many->last, 100);
  EXPECT_EQ(text_of({0.42, 51, 100}, 100),
            "about 0.42s per step, 42s for 100 steps (the median of steps 51 to 100)");
}

TEST(MeasuredTime, OfAnotherShapeSaysNothing) {
  EXPECT_FALSE(measured_time(start_with(2, 8) + rows(9), start_with(4, 8)));
  EXPECT_FALSE(measured_time(start_with(2, 8) + rows(9), start_with(2, 16)));
  EXPECT_FALSE(measured_time(start_with(2, 8) + rows(1), start_with(2, 8)));
  EXPECT_FALSE(measured_time("", start_with(2, 8)));
  EXPECT_FALSE(measured_time("{damaged" + rows(9), start_with(2, 8)));
}

}  // namespace
}  // namespace fm::engine
