// A shard's update, whatever parts it goes in, against one update of the whole.
#include "zero/optimizer_shard.h"

#include <gtest/gtest.h>

#include <cmath>

#include "comm/meet/world.h"
#include "core/element.h"
#include "tests/zero/one_rank.h"

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

  for (const core::DType element : {core::DType::kF32, core::DType::kBF16}) {
    comm::run_ranks(2, [&](comm::Communicator& dp) {
      core::Ledger ledger;
      LayoutInput input;
      input.rules.plan = core::plan_of(2, core::SumOrder::kFast);
      input.rules.element = element;
      input.tables = {&table};
      const Layout layout = one_rank(input, dp);
      ParamStore params(layout, ledger, dp);
      GradStore grads(layout, ledger, dp);
      OptimizerShard shard(layout, ledger, options);
      const std::int64_t first = layout.at(0).owned.first.count();
      const bool bf16 = element == core::DType::kBF16;
      // What is updated: the master of bf16 parameters.
      auto* const slice = bf16 ? shard.master(0) : static_cast<float*>(params.slice(0));
      const std::int64_t count = std::min(layout.at(0).map.slice().count(), all - first);
      for (std::int64_t i = 0; i < count; ++i) {
        slice[i] = param_of(first + i);
        grads.slice(0)[i] = grad_of(first + i);
      }
      shard.update(0, scalars, params, grads);
      for (std::int64_t i = 0; i < count; ++i) {
        const auto at = static_cast<std::size_t>(first + i);
        ASSERT_EQ(slice[i], param[at]) << at;
        if (bf16) {
          const core::Bf16 rounded = static_cast<core::Bf16*>(params.slice(0))[i];
          ASSERT_EQ(rounded.bits, core::to_bf16(param[at]).bits) << at;
        }
        ASSERT_EQ(shard.slice(0, 0)[i], moments[at]) << at;
        ASSERT_EQ(shard.slice(0, 1)[i], moments[static_cast<std::size_t>(all) + at]) << at;
      }
    });
  }
}

TEST(OptimizerShard, TheRoundedMasterBecomesThisRanksParameters) {
  const core::ParamTable table({{.name = "matrix", .shape = {5000}}}, {});
  const auto master_of = [](std::int64_t i) { return std::sin(static_cast<float>(i)); };
  for (const int zero_stage : {0, 1, 2, 3}) {
    comm::run_ranks(2, [&](comm::Communicator& dp) {
      core::Ledger ledger;
      LayoutInput input;
      input.rules.plan = core::plan_of(zero_stage, core::SumOrder::kFast);
      input.rules.element = core::DType::kBF16;
      input.tables = {&table};
      const Layout layout = one_rank(input, dp);
      ParamStore params(layout, ledger, dp);
      OptimizerShard shard(layout, ledger, {});
      const std::int64_t first = layout.at(0).optimizer.first.count();
      const std::int64_t count = layout.at(0).optimizer.count.count();
      for (std::int64_t i = 0; i < count; ++i) shard.master(0)[i] = master_of(first + i);
      shard.round_master(0, params);
      std::vector<core::Bf16> slot(static_cast<std::size_t>(layout.at(0).map.padded().count()));
      if (layout.plan.publishes()) params.publish(0).wait();
      if (params.whole(0) == nullptr) params.gather(0, slot.data()).wait();
      const auto* const whole = params.whole(0) == nullptr
                                    ? slot.data()
                                    : static_cast<const core::Bf16*>(params.whole(0));
      for (std::int64_t i = 0; i < std::ssize(slot); ++i) {
        ASSERT_EQ(whole[i].bits, core::to_bf16(master_of(i)).bits) << zero_stage << " at " << i;
      }
    });
  }
}

}  // namespace
}  // namespace fm::zero
