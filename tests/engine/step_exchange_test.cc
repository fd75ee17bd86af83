// What ranks tell each other behind a step: collectives that differ end all of them, and slow ranks
// are named.
#include "engine/run/step_exchange.h"

#include <gtest/gtest.h>

#include <mutex>

#include "comm/meet/world.h"
#include "core/check.h"
#include "engine/run/run_box.h"

namespace fm::engine {
namespace {

constexpr std::int64_t kMs = 1'000'000;

std::vector<std::int64_t> ms(std::vector<std::int64_t> times) {
  for (std::int64_t& time : times) time *= kMs;
  return times;
}

TEST(SlowRanks, AreThoseOfOneAndAHalfTimesTheMedianOfTheOthers) {
  const auto times = ms({196, 190, 200, 412});
  const std::vector<int> alike(4, 0);
  auto slow = slowest_of(times, alike);
  ASSERT_TRUE(slow);
  slow->host = "b";
  EXPECT_EQ(text_of(*slow),
            "rank 3 (host b) takes 2.1 x the median of the others (412 ms, 196 ms)");
  EXPECT_EQ(json_of(*slow, 40),
            R"({"slow_rank":{"host":"b","median_s":0.196,"own_s":0.412,"rank":3,"step":40}})");
  EXPECT_FALSE(slowest_of(ms({196, 190, 200, 280}), alike)) << "280 is 1.43 x 196";
  EXPECT_EQ(slowest_of(ms({196, 190, 200, 300}), alike)->world_rank, 3);
  EXPECT_FALSE(slowest_of(ms({2, 2, 2, 9}), alike)) << "7 ms are noise";
  EXPECT_FALSE(slowest_of(ms({0, 0, 0, 0}), alike));
  EXPECT_FALSE(slowest_of(ms({900}), std::vector<int>{0})) << "alone";
}

// Pipe ranks have different work.
TEST(SlowRanks, AreComparedWithThoseThatDoTheSameWork) {
  const auto times = ms({100, 100, 400, 400});
  EXPECT_FALSE(slowest_of(times, std::vector<int>{0, 0, 1, 1}));
  EXPECT_EQ(slowest_of(ms({100, 100, 400, 900}), std::vector<int>{0, 0, 1, 1})->world_rank, 3);
  EXPECT_EQ(slowest_of(ms({100, 400}), std::vector<int>{0, 1})->world_rank, 1);
}

TEST(StepExchange, TellsSignalsOfAnyRankToAll) {
  comm::run_ranks(3, [](comm::Communicator& world) {
    StepExchange exchange(world, nullptr, {0, 0, 0});
    const auto told = exchange.tell({.save = world.rank() == 1}, false, 1);
    EXPECT_TRUE(told.asked.save);
    EXPECT_FALSE(told.asked.terminate);
    EXPECT_FALSE(told.slow);
  });
}

TEST(StepExchange, SaysWhetherAllAreReadyBesideWhatIsAsked) {
  comm::run_ranks(3, [](comm::Communicator& world) {
    StepExchange exchange(world, nullptr, {0, 0, 0});
    const auto some = exchange.tell({.save = true}, world.rank() != 1, 1);
    EXPECT_TRUE(some.asked.save);
    EXPECT_FALSE(some.all_ready);
    const auto all = exchange.tell({.terminate = world.rank() == 2}, true, 2);
    EXPECT_FALSE(all.asked.save);
    EXPECT_TRUE(all.asked.terminate);
    EXPECT_TRUE(all.all_ready);
  });
}

TEST(StepExchange, NamesASlowRankAfterTenStepsAndNotAgainForHundred) {
  comm::run_ranks(4, [](comm::Communicator& inner) {
    core::BlackBox box(inner.rank());
    const auto world = comm::traced(inner, nullptr, &box);
    StepExchange exchange(*world, &box, {0, 0, 0, 0});
    std::vector<std::int64_t> named;
    for (std::int64_t step = 1; step <= 130; ++step) {
      // Rank 2 once takes long, rank 1 always; both wait for the rest of a second.
      const std::int64_t own = world->rank() == 1                ? 400 * kMs
                               : world->rank() == 2 && step == 5 ? 900 * kMs
                                                                 : 100 * kMs;
      exchange.add_step(1000 * kMs, 1000 * kMs - own);
      const auto told = exchange.tell({}, false, step);
      if (!told.slow) continue;
      EXPECT_EQ(told.slow->world_rank, 1);
      EXPECT_FALSE(told.slow->host.empty());
      named.push_back(step);
    }
    if (world->rank() == 0) {
      EXPECT_EQ(named, (std::vector<std::int64_t>{10, 110}));
    } else {
      EXPECT_TRUE(named.empty());
    }
  });
}

// Rank 1 reduces unit 1 where the others reduce unit 2, of the same size: no backend can see that.
TEST(StepExchange, EndsAllRanksWhereTheirCollectivesDiffer) {
  std::mutex mutex;
  std::vector<std::string> messages;
  const auto body = [&](comm::Communicator& inner) {
    core::BlackBox box(inner.rank());
    box.name_ops({{"R", "reduce"}});
    box.name_units({"embedding", "layers.0", "layers.1"});
    const auto world = comm::traced(inner, nullptr, &box);
    const int all[] = {0, 1, 2};
    const auto dp = world->split(all);
    dp->set_name("dp");
    StepExchange exchange(*world, &box, {0, 0, 0});
    std::vector<double> values(1);
    const auto step = [&](std::int64_t number, int odd_unit) {
      box.begin_phase(core::RunPhase::kStep, number);
      for (const int unit : {2, odd_unit}) {
        box.begin_instruction(0, -1, unit);
        dp->all_reduce({values.data(), core::Elements(1), core::DType::kF64}).finish();
      }
      box.begin_phase(core::RunPhase::kBetweenSteps, number);
      exchange.tell({}, false, number);
    };
    for (std::int64_t number = 1; number <= 20; ++number) step(number, 1);
    try {
      step(21, world->rank() == 1 ? 1 : 2);
    } catch (const core::MachineError& error) {
      EXPECT_EQ(error.code(), core::ExitCode::kMismatch);
      const std::lock_guard lock(mutex);
      messages.emplace_back(error.what());
    }
  };
  comm::run_ranks(3, body);
  ASSERT_EQ(messages.size(), 3U);
  for (const std::string& message : messages) {
    EXPECT_EQ(message, messages[0]);
    EXPECT_NE(message.find("(operation 42 of group dp[0-2] is step 21, reduce R.2 (layers.1), "
                           "all_reduce #42 of group dp[0-2], 1 x fp64 at rank 0 (host "),
              std::string::npos)
        << message;
    EXPECT_NE(message.find(", and step 21, reduce R.1 (layers.0), all_reduce #42 of group "
                           "dp[0-2], 1 x fp64 at rank 1 (host "),
              std::string::npos)
        << message;
  }
}

}  // namespace
}  // namespace fm::engine
