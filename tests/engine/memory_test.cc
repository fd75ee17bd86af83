// The ledger of a run against the plan before it.
#include <gtest/gtest.h>

#include <mutex>

#include "comm/meet/world.h"
#include "engine/plan/run_model.h"
#include "engine/state/persistence.h"
#include "engine/step/rank_state.h"
#include "small_run.h"

namespace fm::engine {
namespace {

using core::Account;

struct Owned {
  std::int64_t params = 0;
  std::int64_t grads = 0;
  std::int64_t optimizer = 0;
};

struct Layout {
  int zero_stage = 0;
  int dp_size = 1;
  int pipe = 1;
  core::SumOrder order = core::SumOrder::kFast;
  bool tied = false;
  comm::Between between = comm::Between::kMessages;
  core::DType element = core::DType::kF32;
};

constexpr Account kPlanned[] = {Account::kParams, Account::kGrads,   Account::kOptimizer,
                                Account::kSlots,  Account::kScratch, Account::kActivations};

core::Bytes planned(const MemoryForecast& forecast, Account account) {
  switch (account) {
    case Account::kParams: return forecast.params;
    case Account::kGrads: return forecast.grads;
    case Account::kOptimizer: return forecast.optimizer;
    case Account::kSlots: return forecast.slots;
    case Account::kScratch: return forecast.scratch;
    case Account::kActivations: return forecast.activations;
    case Account::kSaves: return forecast.saves;
    case Account::kData: break;  // the source's: files, not the model
  }
  return {};
}

// Builds the state on every rank and makes `steps` steps, checks each account against the plan;
// returns world rank 0's.
Owned owned_by(const Layout& layout, int steps = 0) {
  TrainOptions options = small_options(testing::TempDir() + "/fm_memory", layout.tied);
  options.zero_stage = layout.zero_stage;
  options.pipe_parallel_size = layout.pipe;
  options.sum_order = layout.order;
  options.element = layout.element;
  Owned out;
  std::mutex mutex;
  const auto build = [&](comm::Communicator& world) {
    core::Ledger ledger;
    const model::OpenedModel opened = open_run_model(options);
    const RunPlan plan = make_run_plan(options, opened.model, shape_of(options, world));
    RankState state(options, plan, opened.model, world, ledger);
    const MemoryForecast forecast = plan.memory(state.at.pipe_rank);
    if (steps > 0) fill_state(options, opened, state);
    SmallSteps trained(options, opened.model, state);
    for (int step = 1; step <= steps; ++step) trained.run(step);
    const std::scoped_lock lock(mutex);
    for (const Account account : kPlanned) {
      SCOPED_TRACE(name_of(account));
      EXPECT_EQ(ledger.current(account).count(), planned(forecast, account).count());
      EXPECT_EQ(ledger.peak(account).count(), planned(forecast, account).count());
    }
    if (world.rank() == 0)
      out = {forecast.params.count(), forecast.grads.count(), forecast.optimizer.count()};
  };
  comm::run_ranks(layout.dp_size * layout.pipe, build, comm::kThreadsMs, layout.between);
  return out;
}

TEST(Memory, EveryAccountStaysWhatThePlanPredictsInEveryStep) {
  for (const bool tied : {false, true}) {
    for (const int pipe : {1, 2}) {
      for (const int zero_stage : {0, 1, 2, 3}) {
        for (const auto order : {core::SumOrder::kFast, core::SumOrder::kCanonical}) {
          SCOPED_TRACE(testing::Message() << "tied " << tied << " pipe " << pipe << " ZeRO "
                                          << zero_stage << " order " << static_cast<int>(order));
          for (const core::DType element : {core::DType::kF32, core::DType::kBF16}) {
            const auto shared = comm::Between::kSharedMemory;
            owned_by({zero_stage, 2, pipe, order, tied, comm::Between::kMessages, element}, 2);
            owned_by({zero_stage, 2, pipe, order, tied, shared, element}, 2);
          }
        }
      }
    }
  }
}

// Parameters of the model by hand: embedding and head 777 x 96, per block q and o 96 x 96, k and v
// 32 x 96, three FFN matrices 250 x 96, two norms, and the last norm. Every flat buffer is padded
// to whole blocks of 1,024 per owner.
std::int64_t padded(std::int64_t elements, int owners) {
  const std::int64_t slice = ((elements + owners - 1) / owners + 1023) / 1024 * 1024;
  return slice * owners;
}
std::int64_t model_elements(int owners) {
  const std::int64_t block = 2 * 96 * 96 + 2 * 32 * 96 + 3 * 250 * 96 + 2 * 96;
  return padded(777 * 96, owners) + 5 * padded(block, owners) + padded(777 * 96 + 96, owners);
}

TEST(Memory, OwnedStateFallsByStageAsTheZeroPaperSays) {
  for (const int dp_size : {1, 2, 4}) {
    const std::int64_t whole = model_elements(dp_size) * 4;
    const std::int64_t share = whole / dp_size;
    const std::int64_t expected[4][3] = {{whole, whole, 2 * whole},
                                         {whole, whole, 2 * share},
                                         {whole, share, 2 * share},
                                         {share, share, 2 * share}};
    for (int zero_stage = 0; zero_stage < 4; ++zero_stage) {
      const Owned owned = owned_by({.zero_stage = zero_stage, .dp_size = dp_size});
      EXPECT_EQ(owned.params, expected[zero_stage][0]) << zero_stage << " dp " << dp_size;
      EXPECT_EQ(owned.grads, expected[zero_stage][1]) << zero_stage << " dp " << dp_size;
      EXPECT_EQ(owned.optimizer, expected[zero_stage][2]) << zero_stage << " dp " << dp_size;
    }
  }
}

// 2 bytes of parameters, 4 of gradients, 12 of the optimizer's: a master and two moments.
TEST(Memory, InBf16OwnedStateIsTheSixPlusTwelveOfThePapers) {
  const std::int64_t whole = model_elements(2);
  const std::int64_t share = whole / 2;
  const std::int64_t expected[4][3] = {{2 * whole, 4 * whole, 12 * whole},
                                       {2 * whole, 4 * whole, 12 * share},
                                       {2 * whole, 4 * share, 12 * share},
                                       {2 * share, 4 * share, 12 * share}};
  for (int zero_stage = 0; zero_stage < 4; ++zero_stage) {
    const Owned owned =
        owned_by({.zero_stage = zero_stage, .dp_size = 2, .element = core::DType::kBF16});
    EXPECT_EQ(owned.params, expected[zero_stage][0]) << zero_stage;
    EXPECT_EQ(owned.grads, expected[zero_stage][1]) << zero_stage;
    EXPECT_EQ(owned.optimizer, expected[zero_stage][2]) << zero_stage;
  }
}

// Parameters exist once per host: a rank is charged its slice, and no slot is needed to gather
// them.
TEST(Memory, SharedParametersCostOneSliceEachInEveryStageWithOneOwner) {
  for (const int dp_size : {2, 4}) {
    const std::int64_t whole = model_elements(dp_size) * 4;
    for (int zero_stage = 0; zero_stage < 4; ++zero_stage) {
      const Owned owned = owned_by(
          {.zero_stage = zero_stage, .dp_size = dp_size, .between = comm::Between::kSharedMemory});
      EXPECT_EQ(owned.params, zero_stage == 0 ? whole : whole / dp_size) << zero_stage;
    }
  }
}

}  // namespace
}  // namespace fm::engine
