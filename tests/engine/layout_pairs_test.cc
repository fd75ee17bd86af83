// A checkpoint that was written in one layout (pipe, data, model and sequence ranks, ZeRO stage,
// schedule) goes on in any other: random pairs of them.
#include <gtest/gtest.h>

#include <random>

#include "trainer_case.h"

namespace fm::engine {
namespace {

struct RandomLayout {
  int pipe = 1;
  int data = 1;
  int model = 1;
  int sequence = 1;
  int zero_stage = 0;
  const pipeline::ScheduleRow* schedule = nullptr;
  SequenceMethod method = SequenceMethod::kUlysses;

  int ranks() const { return pipe * data * model * sequence; }
  // Products and sums of attention are in the order of one rank.
  bool canonical() const { return model == 1 && sequence == 1; }
};

std::ostream& operator<<(std::ostream& out, const RandomLayout& at) {
  return out << "pipe " << at.pipe << " (" << at.schedule->name << "), data " << at.data
             << ", model " << at.model << ", sequence " << at.sequence << " (method "
             << static_cast<int>(at.method) << "), ZeRO " << at.zero_stage;
}

// At most 8 ranks; the model has 5 blocks, 6 heads and 2 KV heads.
RandomLayout draw(std::mt19937& random) {
  const auto one_or_two = [&] { return 1 + static_cast<int>(random() % 2); };
  RandomLayout at;
  do {
    at = {.pipe = one_or_two(),
          .data = one_or_two(),
          .model = one_or_two(),
          .sequence = one_or_two(),
          .zero_stage = static_cast<int>(random() % 4)};
  } while (at.ranks() > 8);
  const auto schedules = pipeline::all_schedules();
  at.schedule = &schedules[random() % schedules.size()];
  if (at.pipe == 1) at.schedule = &pipeline::default_schedule();
  if (random() % 2 == 0) at.method = SequenceMethod::kRing;
  return at;
}

class LayoutPairs : public TrainerCase {
 protected:
  static void go(TrainOptions options, const RandomLayout& at, std::int64_t steps) {
    options.train_steps = steps;
    options.pipe_parallel_size = at.pipe;
    options.model_parallel_size = at.model;
    options.sequence_parallel_size = at.sequence;
    if (at.sequence > 1) options.sequence_method = at.method;
    options.zero_stage = at.zero_stage;
    options.schedule = at.schedule;
    ASSERT_EQ(run(options, at.ranks()), 0);
  }
};

TEST_F(LayoutPairs, TwelveRandomPairsGoOnWithTheLossesOfOneRank) {
  constexpr int kFirst = 2;
  constexpr int kLast = 7;
  TrainOptions whole = options("whole", kLast);
  whole.optimizer.lr = 1e-3;
  whole.batch = {8, 1, {}};
  ASSERT_EQ(run(whole), 0);
  const auto expected = metrics(whole);
  std::mt19937 random(24);
  for (int pair = 0; pair < 12; ++pair) {
    const RandomLayout first = draw(random);
    const RandomLayout second = draw(random);
    SCOPED_TRACE(testing::Message() << first << " -> " << second);
    TrainOptions part = whole;
    part.output_dir = (folder() / ("pair" + std::to_string(pair))).string();
    go(part, first, kFirst);
    part.resume = checkpoint::Resume::kMust;
    go(part, second, kLast);
    const auto found = metrics(part);
    const bool bitwise = first.canonical() && second.canonical();
    for (int step = 1; step <= kLast; ++step) {
      const double tolerance = bitwise ? 0.0 : 1e-5;
      EXPECT_NEAR(found.at(step).loss, expected.at(step).loss, tolerance) << "step " << step;
    }
  }
}

}  // namespace
}  // namespace fm::engine
