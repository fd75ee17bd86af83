// Sums over micro-batches and ranks against a tree written down here, with gradients that tell
// their address.
#include "zero/grad_store.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <mutex>

#include "comm/meet/world.h"
#include "tests/zero/one_rank.h"
#include "zero/global_norm.h"

namespace fm::zero {
namespace {

using core::Elements;
using core::Home;

constexpr std::int64_t kElements = 2500;  // three blocks, one entry of 2,500 elements

const core::ParamTable& table() {
  static const core::ParamTable made({{.name = "a", .shape = {50, 50}}}, {});
  return made;
}

// A number that float sums cannot add exactly in every order.
float gradient(int slot, std::int64_t element) {
  return std::sin(static_cast<float>(slot * 131 + element)) *
         std::exp2(static_cast<float>(slot % 7));
}

float tree_of(std::vector<float> values) {
  while (values.size() > 1) {
    std::vector<float> next;
    for (std::size_t i = 0; i + 1 < values.size(); i += 2)
      next.push_back(values[i] + values[i + 1]);
    if (values.size() % 2 == 1) next.push_back(values.back());
    values = next;
  }
  return values[0];
}

// What the two orders must give for one element (docs/numbers.md, "Order of sums").
float canonical_sum(int micros, int dp, std::int64_t element) {
  std::vector<float> slots;
  for (int slot = 0; slot < micros * dp; ++slot) slots.push_back(gradient(slot, element));
  return tree_of(slots);
}
float local_first_sum(int micros, int dp, std::int64_t element) {
  std::vector<float> ranks;
  for (int rank = 0; rank < dp; ++rank) {
    float sum = gradient(rank, element);
    for (int k = 1; k < micros; ++k) sum += gradient(k * dp + rank, element);
    ranks.push_back(sum);
  }
  return tree_of(ranks);
}
float reduced_first_sum(int micros, int dp, std::int64_t element) {
  float sum = 0.0F;
  for (int k = 0; k < micros; ++k) {
    std::vector<float> ranks;
    for (int rank = 0; rank < dp; ++rank) ranks.push_back(gradient(k * dp + rank, element));
    sum = k == 0 ? tree_of(ranks) : sum + tree_of(ranks);
  }
  return sum;
}

// Where `slots` is not 0, a step has so many; gradients meet one by one.
Layout layout_of(int zero_stage, core::SumOrder order, int micros, comm::Communicator& dp,
                 bool one_tied_gradient = false, int slots = 0) {
  LayoutInput input;
  const bool shared = dp.size() > 1 && dp.common_memory() != nullptr;
  input.rules.plan = core::plan_of(
      zero_stage, order, shared ? core::ParamSharing::kOneHost : core::ParamSharing::kPrivate);
  input.rules.order = order;
  input.rules.micros = micros;
  input.rules.single_slots = slots;
  input.tables.assign(one_tied_gradient ? 2 : 1, &table());
  return one_rank(input, dp, one_tied_gradient);
}

void write_micro(GradStore& store, const Layout& layout, int micro) {
  const GradStore::Destination to = store.destination({}, 0, micro);
  for (std::int64_t i = 0; i < kElements; ++i) {
    const float value = gradient(micro * layout.dp_size + layout.dp_rank, i);
    to.whole[i] = to.assign ? value : to.whole[i] + value;
  }
}

struct Case {
  int zero_stage = 0;
  core::SumOrder order = core::SumOrder::kFast;
  int micros = 1;
  int dp = 1;
  comm::Between between = comm::Between::kMessages;
  int slots = 0;  // that meet one by one
};

void expect_sum(const Case& at, const std::function<float(std::int64_t)>& expected) {
  std::mutex mutex;
  comm::run_ranks(
      at.dp,
      [&](comm::Communicator& dp) {
        core::Ledger ledger;
        const Layout layout = layout_of(at.zero_stage, at.order, at.micros, dp, false, at.slots);
        GradStore store(layout, ledger, dp);
        for (int step = 0; step < 2; ++step) {  // the second step must not see the first
          store.begin_step();
          for (int micro = 0; micro < at.micros; ++micro) {
            write_micro(store, layout, micro);
            if (layout.plan.reduce_every_micro) store.reduce({}, 0, micro);
          }
          if (!layout.plan.reduce_every_micro) store.reduce({}, 0, -1);
        }
        const std::scoped_lock lock(mutex);
        const std::int64_t first = layout.at(0).owned.first.count();
        for (std::int64_t i = 0; i < layout.at(0).map.slice().count(); ++i) {
          const float wanted = first + i < kElements ? expected(first + i) : 0.0F;
          ASSERT_EQ(store.slice(0)[i], wanted)
              << "ZeRO " << at.zero_stage << " micros " << at.micros << " rank " << dp.rank()
              << " of " << at.dp << " element " << first + i;
        }
      },
      comm::kThreadsMs, at.between);
}

TEST(GradStore, CanonicalOrderIsOneTreeOverAllSlots) {
  for (const int dp : {1, 2, 4}) {
    for (const int micros : {1, 2, 3, 4, 5, 6, 7, 8}) {
      for (const int zero_stage : {0, 1, 2, 3}) {
        expect_sum({zero_stage, core::SumOrder::kCanonical, micros, dp},
                   [&](std::int64_t i) { return canonical_sum(micros, dp, i); });
      }
    }
  }
}

// Micro-batches that a step does not have are written and sent, too, and change nothing.
TEST(GradStore, CanonicalOrderOfAnyNumberOfSlotsIsOneTreeOnAnyNumberOfRanks) {
  for (const auto between : {comm::Between::kMessages, comm::Between::kSharedMemory}) {
    for (const int dp : {2, 3, 5}) {
      for (int slots = dp; slots <= 12; ++slots) {
        const int micros = (slots + dp - 1) / dp;
        for (const int zero_stage : {0, 1, 2, 3}) {
          expect_sum({zero_stage, core::SumOrder::kCanonical, micros, dp, between, slots},
                     [&](std::int64_t i) { return canonical_sum(slots, 1, i); });
        }
      }
    }
  }
}

TEST(GradStore, FastOrderAddsMicroBatchesFirstInZero0And1) {
  for (const int dp : {1, 2, 3}) {
    for (const int micros : {1, 3, 4}) {
      for (const int zero_stage : {0, 1}) {
        expect_sum({zero_stage, core::SumOrder::kFast, micros, dp},
                   [&](std::int64_t i) { return local_first_sum(micros, dp, i); });
      }
    }
  }
}

TEST(GradStore, FastOrderAddsReducedMicroBatchesInZero2And3) {
  for (const int dp : {1, 2, 3}) {
    for (const int micros : {1, 3, 4}) {
      for (const int zero_stage : {2, 3}) {
        expect_sum({zero_stage, core::SumOrder::kFast, micros, dp},
                   [&](std::int64_t i) { return reduced_first_sum(micros, dp, i); });
      }
    }
  }
}

// A rank's own part is written where the sum will rest, the others' into a slot without it.
TEST(GradStore, OwnPartsInPlaceGiveTheSameSums) {
  for (const int dp : {2, 3, 4}) {
    for (const int micros : {1, 3, 4}) {
      for (const int zero_stage : {2, 3}) {
        const auto shared = comm::Between::kSharedMemory;
        expect_sum({zero_stage, core::SumOrder::kFast, micros, dp, shared},
                   [&](std::int64_t i) { return reduced_first_sum(micros, dp, i); });
        if (dp == 3) continue;
        expect_sum({zero_stage, core::SumOrder::kCanonical, micros, dp, shared},
                   [&](std::int64_t i) { return canonical_sum(micros, dp, i); });
      }
    }
  }
}

TEST(GradStore, AGradientReducedEachMicroWaitsInASlotWithoutTheOwnPart) {
  for (const auto between : {comm::Between::kMessages, comm::Between::kSharedMemory}) {
    comm::run_ranks(
        4,
        [&](comm::Communicator& dp) {
          core::Ledger ledger;
          const Layout layout = layout_of(2, core::SumOrder::kFast, 1, dp);
          const GradStore store(layout, ledger, dp);
          const std::int64_t parts = between == comm::Between::kSharedMemory ? 3 : 4;
          EXPECT_EQ(ledger.current(core::Account::kSlots).count(), parts * 1024 * 4);
        },
        comm::kThreadsMs, between);
  }
}

// Both ends of a tied matrix write flat parameter 0, other gradients are written and reduced in
// between.
TEST(GradStore, OneTiedGradientWaitsWhileOtherUnitsAreReduced) {
  for (const auto between : {comm::Between::kMessages, comm::Between::kSharedMemory}) {
    for (const int zero_stage : {1, 2}) {
      comm::run_ranks(
          2,
          [&](comm::Communicator& dp) {
            core::Ledger ledger;
            const Layout layout = layout_of(zero_stage, core::SumOrder::kFast, 2, dp, true);
            GradStore store(layout, ledger, dp);
            const bool each = layout.plan.reduce_every_micro;
            store.begin_step();
            for (int micro = 0; micro < 2; ++micro) {
              const auto add = [&](int flat_param, float value) {
                const GradStore::Destination to = store.destination({}, flat_param, micro);
                for (std::int64_t i = 0; i < kElements; ++i)
                  to.whole[i] = value + (to.assign ? 0.0F : to.whole[i]);
              };
              add(0, 1.0F);  // the head's end
              add(1, 1000.0F);
              if (each) store.reduce({}, 1, micro);
              add(0, 10.0F);  // the embedding's end
              if (each) store.reduce({}, 0, micro);
            }
            if (!each) store.reduce({}, 1, -1), store.reduce({}, 0, -1);
            EXPECT_EQ(store.slice(0)[5], 44.0F) << zero_stage;  // 2 ranks x 2 micros x 11
            EXPECT_EQ(store.slice(1)[5], 4000.0F) << zero_stage;
          },
          comm::kThreadsMs, between);
    }
  }
}

TEST(GradStore, CanonicalCounterTakesTheBuffersThatTheDesignAllows) {
  const int levels[] = {0, 0, 1, 1, 2, 2, 2, 2, 3};  // floor(log2 micros) beside the gradient
  for (int micros = 1; micros <= 8; ++micros) {
    comm::run_ranks(1, [&](comm::Communicator& dp) {
      core::Ledger ledger;
      const Layout layout = layout_of(2, core::SumOrder::kCanonical, micros, dp);
      const GradStore store(layout, ledger, dp);
      const std::int64_t slice = layout.at(0).map.slice().count() * 4;
      const std::int64_t arriving = micros > 1 ? slice : 0;
      EXPECT_EQ(ledger.current(core::Account::kScratch).count(), levels[micros] * slice + arriving);
      EXPECT_EQ(ledger.current(core::Account::kGrads).count(), slice);
    });
  }
}

TEST(GlobalNorm, IsTheEuclideanNormOnEveryRankInEveryLayout) {
  double squares = 0.0;
  for (std::int64_t i = 0; i < kElements; ++i) {
    const double value = canonical_sum(1, 4, i);
    squares += value * value;
  }
  for (const auto order : {core::SumOrder::kFast, core::SumOrder::kCanonical}) {
    for (const int zero_stage : {0, 2}) {
      comm::run_ranks(4, [&](comm::Communicator& dp) {
        core::Ledger ledger;
        const Layout layout = layout_of(zero_stage, order, 1, dp);
        GradStore store(layout, ledger, dp);
        store.begin_step();
        write_micro(store, layout, 0);
        store.reduce({}, 0, layout.plan.reduce_every_micro ? 0 : -1);
        comm::Words data = words_of(dp);
        comm::Words pipe = alone(dp);
        GlobalNorm norm(layout, data, pipe,
                        {{0, 0, 1, GlobalNorm::numbers_of(layout.at(0).map, order)}});
        EXPECT_NEAR(norm.squared({}, store), squares, 1e-12 * squares);
      });
    }
  }
}

TEST(GradStore, ClearGapsTouchesNothingElse) {
  const core::ParamTable two({{.name = "x", .shape = {3, 5}}, {.name = "y", .shape = {20}}}, {});
  const FlatParam flat_param{.table = &two, .map = {two.elements(), 1}};
  std::vector<float> flat(static_cast<std::size_t>(flat_param.map.padded().count()), 1.0F);
  clear_gaps({}, flat_param, flat.data());
  for (std::size_t i = 0; i < flat.size(); ++i) {
    const bool parameter = i < 15 || (i >= 16 && i < 36);
    EXPECT_EQ(flat[i], parameter ? 1.0F : 0.0F) << i;
  }
}

}  // namespace
}  // namespace fm::zero
