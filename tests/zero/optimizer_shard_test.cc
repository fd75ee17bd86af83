// A shard's update, whatever parts it goes in, against one update of the whole.
#include "zero/optimizer_shard.h"

#include <gtest/gtest.h>

#include <cmath>

#include "comm/thread_world.h"

namespace fm::zero {
namespace {

using core::Elements;

TEST(OptimizerShard, PartsTogetherAreOneUpdateOfTheWhole) {
  constexpr std::int64_t kDecayed = 150'000;  // several parts, the last one not full
  constexpr std::int64_t kFree = 70'000;
  const core::ParamTable table({{.name = "matrix", .shape = {kDecayed}},
                                {.name = "norm", .shape = {kFree}, .kind = core::ParamKind::kNorm}},
                               {.norm = true});
  const std::int64_t boundary = table.decayed().count();
  const optim::OptimizerOptions options = {.weight_decay = 0.1};
  const optim::UpdateScalars scalars = {.lr = 1e-2, .step = 1, .grad_scale = 0.5F};
  const auto param_of = [](std::int64_t i) { return std::sin(static_cast<float>(i)); };
  const auto grad_of = [](std::int64_t i) { return std::cos(static_cast<float>(3 * i)); };

  const std::int64_t all = table.elements().count();
  std::vector<float> param(static_cast<std::size_t>(all));
  std::vector<float> grad(param.size());
  std::vector<float> moments(2 * param.size());
  for (std::int64_t i = 0; i < all; ++i) {
    param[static_cast<std::size_t>(i)] = param_of(i);
    grad[static_cast<std::size_t>(i)] = grad_of(i);
  }
  for (const bool decay : {true, false}) {
    const std::int64_t at = decay ? 0 : boundary;
    optim::update(options, scalars,
                  {.param = param.data() + at,
                   .grad = grad.data() + at,
                   .moment = {moments.data() + at, moments.data() + all + at},
                   .count = Elements(decay ? boundary : all - boundary),
                   .decay = decay});
  }

  comm::run_ranks(2, [&](comm::Communicator& dp) {
    core::Ledger ledger;
    GroupLayout layout;
    layout.plan = core::plan_of(2, core::SumOrder::kFast);
    layout.dp_size = dp.size();
    layout.dp_rank = dp.rank();
    layout.groups.push_back({.table = &table, .map = {table.elements(), dp.size()}});
    ParamStore params(layout, ledger, dp);
    GradStore grads(layout, ledger, dp);
    OptimizerShard shard(layout, ledger, options);
    const std::int64_t first = layout.slice_first(0).count();
    auto* const slice = static_cast<float*>(params.slice(0));
    const std::int64_t count = std::min(layout.at(0).map.slice().count(), all - first);
    for (std::int64_t i = 0; i < count; ++i) {
      slice[i] = param_of(first + i);
      grads.slice(0)[i] = grad_of(first + i);
    }
    shard.update(0, scalars, params, grads);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(first + i);
      ASSERT_EQ(slice[i], param[at]) << at;
      ASSERT_EQ(shard.slice(0, 0)[i], moments[at]) << at;
      ASSERT_EQ(shard.slice(0, 1)[i], moments[static_cast<std::size_t>(all) + at]) << at;
    }
  });
}

}  // namespace
}  // namespace fm::zero
