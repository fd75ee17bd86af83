// Weights that the ranks of a host keep after they were gathered: the same numbers again without a
// message, until something changes.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "comm/meet/world.h"
#include "core/check.h"
#include "tests/zero/one_rank.h"
#include "zero/param_store.h"

namespace fm::zero {
namespace {

using core::Elements;

const core::ParamTable& table() {
  static const core::ParamTable made({{.name = "w", .shape = {5000}}}, {});
  return made;
}

Layout layout_of(comm::Communicator& dp, int secondary) {
  LayoutInput input;
  input.rules.plan = core::plan_of(3, core::SumOrder::kFast);
  input.rules.plan.secondary = secondary;
  input.tables = {&table()};
  return one_rank(std::move(input), dp);
}

// Element i of the flat parameter is `first` + i.
void fill(ParamStore& store, const Layout& layout, float first) {
  auto* const slice = static_cast<float*>(store.slice(0));
  const Elements at = layout.at(0).owned.first;
  std::iota(slice, slice + layout.at(0).owned.count.count(),
            first + static_cast<float>(at.count()));
}

TEST(SecondCopy, IsReadUntilParametersChange) {
  comm::run_ranks_on_hosts({0, 0, 1, 1}, [](comm::Communicator& dp) {
    const Layout layout = layout_of(dp, 2);
    const int first = dp.rank() / 2 * 2;
    const auto near = dp.split(std::vector{first, first + 1});
    core::Ledger ledger;
    const core::Work work;
    ParamStore store(layout, ledger, dp, {nullptr, near.get()});
    std::vector<float> slot(static_cast<std::size_t>(layout.at(0).map.padded().count()));
    // What a gather brings first, and whether it crosses hosts.
    const auto gathered = [&](bool crosses) {
      const core::Bytes before = dp.sent();
      std::fill(slot.begin(), slot.end(), -1.0F);
      store.gather(0, slot.data()).finish();
      EXPECT_EQ(dp.sent() > before, crosses);
      for (std::size_t i = 0; i < slot.size(); ++i)
        EXPECT_EQ(slot[i], slot[0] + static_cast<float>(i)) << i;
      return slot[0];
    };
    fill(store, layout, 100.0F);
    EXPECT_EQ(gathered(true), 100.0F);
    EXPECT_EQ(gathered(true), 100.0F);  // nobody has kept it
    store.keep(work, 0, slot.data());
    EXPECT_EQ(gathered(false), 100.0F);
    fill(store, layout, 200.0F);
    EXPECT_EQ(gathered(false), 100.0F);  // nobody has said that it changed
    store.changed();
    EXPECT_EQ(gathered(true), 200.0F);
    store.keep(work, 0, slot.data());
    EXPECT_EQ(gathered(false), 200.0F);
    store.changed(0);
    EXPECT_EQ(gathered(true), 200.0F);
    dp.barrier().finish();
  });
}

TEST(SecondCopy, IsNoneWhereThePlanHasNone) {
  comm::run_ranks_on_hosts({0, 1}, [](comm::Communicator& dp) {
    const Layout layout = layout_of(dp, 1);
    core::Ledger ledger;
    ParamStore store(layout, ledger, dp);
    std::vector<float> slot(static_cast<std::size_t>(layout.at(0).map.padded().count()));
    fill(store, layout, 1.0F);
    store.gather(0, slot.data()).finish();
    store.keep(core::Work(), 0, slot.data());
    const core::Bytes before = dp.sent();
    store.gather(0, slot.data()).finish();
    EXPECT_GT(dp.sent(), before);
  });
}

TEST(SecondCopy, OfRanksThatDoNotFitTheDataRanksIsADefect) {
  const auto dp = comm::make_solo();
  EXPECT_THROW(layout_of(*dp, 2), core::BugError);
}

}  // namespace
}  // namespace fm::zero
