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
    optim::update({}, options, scalars,
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
      core::Work work;
      shard.update(work, 0, scalars, params, grads);
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

// Two tensors, of which the second is not decayed; both end within a block.
struct LambCase {
  static constexpr std::int64_t kSizes[] = {5'300, 2'500};
  static constexpr int kSteps = 3;
  core::ParamTable table{{{.name = "matrix", .shape = {kSizes[0]}},
                          {.name = "norm", .shape = {kSizes[1]}, .kind = core::ParamKind::kNorm}},
                         {.norm = true}};
  optim::OptimizerOptions options = {.rule = &optim::kLamb, .weight_decay = 0.1, .eps = 1e-6};

  static float param_of(std::int64_t i) { return 2.0F * std::sin(static_cast<float>(i)); }
  static float grad_of(std::int64_t i, int step) {
    return std::cos(static_cast<float>(3 * i + step));
  }
  bool is_gap(std::int64_t i) const {
    const std::int64_t second = table.at(1).offset.count();
    return i >= second + kSizes[1] || (i >= kSizes[0] && i < second);
  }
};

// LAMB of arXiv 1904.00962 in fp64, with DeepSpeed's bounds and its place of the bias correction.
std::vector<double> lamb_by_paper(const LambCase& at) {
  std::vector<double> out(static_cast<std::size_t>(at.table.elements().count()), 0.0);
  for (int tensor = 0; tensor < 2; ++tensor) {
    const std::int64_t first = at.table.at(tensor).offset.count();
    const auto count = static_cast<std::size_t>(LambCase::kSizes[tensor]);
    std::vector<double> p(count), m(count), v(count), u(count);
    for (std::size_t i = 0; i < count; ++i) {
      p[i] = static_cast<double>(LambCase::param_of(first + static_cast<std::int64_t>(i)));
    }
    for (int step = 1; step <= LambCase::kSteps; ++step) {
      double norm_p = 0.0, norm_u = 0.0;
      for (std::size_t i = 0; i < count; ++i) {
        const std::int64_t index = first + static_cast<std::int64_t>(i);
        const double g = 0.5 * static_cast<double>(LambCase::grad_of(index, step));
        m[i] = 0.9 * m[i] + 0.1 * g;
        v[i] = 0.999 * v[i] + 0.001 * g * g;
        u[i] = m[i] / (std::sqrt(v[i]) + 1e-6) + (tensor == 0 ? 0.1 : 0.0) * p[i];
        norm_p += p[i] * p[i];
        norm_u += u[i] * u[i];
      }
      const double trust = std::clamp(std::sqrt(norm_p / norm_u), 0.01, 10.0);
      const double rate =
          0.01 * std::sqrt(1.0 - std::pow(0.999, step)) / (1.0 - std::pow(0.9, step)) * trust;
      for (std::size_t i = 0; i < count; ++i) p[i] -= rate * u[i];
    }
    std::copy(p.begin(), p.end(), out.begin() + first);
  }
  return out;
}

std::vector<float> lamb_on_ranks(const LambCase& at, int ranks) {
  std::vector<float> out(static_cast<std::size_t>(at.table.elements().count()), 0.0F);
  comm::run_ranks(ranks, [&](comm::Communicator& dp) {
    core::Ledger ledger;
    LayoutInput input;
    input.rules.plan = core::plan_of(2, core::SumOrder::kFast);
    input.tables = {&at.table};
    const Layout layout = one_rank(input, dp);
    ParamStore params(layout, ledger, dp);
    GradStore grads(layout, ledger, dp);
    comm::Words words = words_of(dp);
    OptimizerShard shard(layout, ledger, at.options, {.data = &dp, .norms = {.data = &words}});
    const std::int64_t first = layout.at(0).owned.first.count();
    const std::int64_t last =
        std::min(first + layout.at(0).map.slice().count(), at.table.elements().count());
    auto* const slice = static_cast<float*>(params.slice(0));
    for (std::int64_t i = first; i < last; ++i) {
      slice[i - first] = at.is_gap(i) ? 0.0F : LambCase::param_of(i);
    }
    core::Work work;
    for (int step = 1; step <= LambCase::kSteps; ++step) {
      for (std::int64_t i = first; i < last; ++i) {
        grads.slice(0)[i - first] = at.is_gap(i) ? 0.0F : LambCase::grad_of(i, step);
      }
      shard.update(work, 0, {.lr = 0.01, .step = step, .grad_scale = 0.5F}, params, grads);
    }
    for (std::int64_t i = first; i < last; ++i) {
      out[static_cast<std::size_t>(i)] = slice[i - first];
    }
  });
  return out;
}

TEST(OptimizerShard, LambEqualsThePaperOnAnyNumberOfRanks) {
  const LambCase at;
  const std::vector<double> expected = lamb_by_paper(at);
  const std::vector<float> alone = lamb_on_ranks(at, 1);
  for (std::size_t i = 0; i < alone.size(); ++i) {
    const auto got = static_cast<double>(alone[i]);
    ASSERT_NEAR(got, expected[i], 1e-7 + 1e-6 * std::abs(expected[i])) << i;
  }
  for (const int ranks : {2, 4}) EXPECT_EQ(lamb_on_ranks(at, ranks), alone) << ranks;
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
      shard.round_master({}, 0, params);
      std::vector<core::Bf16> slot(static_cast<std::size_t>(layout.at(0).map.padded().count()));
      if (layout.plan.publishes()) params.publish(0).finish();
      if (params.whole(0) == nullptr) params.gather(0, slot.data()).finish();
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
