// Optimizer state in the host's memory beside a device: the bits of one rank of this CPU.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <tuple>

#include "core/check.h"
#include "model/units/lora.h"
#include "trainer_case.h"

namespace fm::engine {
namespace {

constexpr int kSteps = 3;

TrainOptions host_options(bool tied, core::DType element = core::DType::kF32) {
  TrainOptions options = small_options(testing::TempDir() + "/fm_host_tier", tied);
  options.sum_order = core::SumOrder::kCanonical;
  options.element = element;
  if (element == core::DType::kF16) options.loss_scale = {.first = 4096.0};
  options.shared_memory = false;
  return options;
}

// FM_DEVICE_SEED: other times for all of these tests.
std::uint64_t seed_of_tests() {
  const char* const given = std::getenv("FM_DEVICE_SEED");
  return given == nullptr ? 1 : std::stoull(given);
}

RunTrace on_cpu(TrainOptions options, int dp_size) {
  options.device.kind = DeviceKind::kCpu;
  return run_small(std::move(options), dp_size, kSteps);
}

// On the fake device, with this share of the state in the host's memory.
RunTrace beside_it(TrainOptions options, int dp_size, double ratio = 1.0,
                   std::uint64_t seed = seed_of_tests()) {
  options.device = {DeviceKind::kFake, seed};
  options.offload.optimizer = core::Tier::kHost;
  options.offload.ratio = ratio;
  return run_small(std::move(options), dp_size, kSteps);
}

using Cell = std::tuple<int, int, int, bool>;  // zero, dp, pipe, tied
class HostTierMatrix : public testing::TestWithParam<Cell> {};

TEST_P(HostTierMatrix, EqualsOneRankOfThisCpuBitForBit) {
  const auto [zero_stage, dp_size, pipe_ranks, tied] = GetParam();
  for (const core::DType element : {core::DType::kF32, core::DType::kBF16, core::DType::kF16}) {
    if (element != core::DType::kF32 && !tied) continue;
    TrainOptions options = host_options(tied, element);
    const RunTrace expected = on_cpu(options, 1);
    EXPECT_NE(expected.losses.front(), expected.losses.back());
    options.zero_stage = zero_stage;
    options.pipe_parallel_size = pipe_ranks;
    options.recompute = zero_stage % 2 == 1;
    for (const double ratio : {1.0, 0.5}) {
      if (ratio < 1.0 && element == core::DType::kF16) continue;
      SCOPED_TRACE(testing::Message() << core::name_of(element) << " " << ratio);
      EXPECT_EQ(first_difference(expected, beside_it(options, dp_size, ratio)), "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, HostTierMatrix,
                         testing::Combine(testing::Values(0, 1, 2, 3), testing::Values(1, 2, 4),
                                          testing::Values(1, 2), testing::Bool()),
                         [](const auto& at) {
                           return "Zero" + std::to_string(std::get<0>(at.param)) + "Dp" +
                                  std::to_string(std::get<1>(at.param)) + "Pipe" +
                                  std::to_string(std::get<2>(at.param)) +
                                  (std::get<3>(at.param) ? "Tied" : "Untied");
                         });

TEST(HostTier, EveryRuleThatMovesElementsByThemselves) {
  for (const optim::OptimizerRow* rule : {&optim::kLion, &optim::kAdagrad, &optim::kSgd}) {
    SCOPED_TRACE(std::string(rule->name));
    TrainOptions options = host_options(true);
    options.optimizer = {.rule = rule, .lr = 1e-3, .weight_decay = 0.1, .momentum = 0.9};
    options.zero_stage = 2;
    EXPECT_EQ(first_difference(on_cpu(options, 2), beside_it(options, 2)), "");
  }
}

TEST(HostTier, NothingIsThereWithARatioOfNothing) {
  TrainOptions options = host_options(true);
  options.device.kind = DeviceKind::kFake;
  options.offload.optimizer = core::Tier::kHost;
  options.offload.ratio = 0.0;
  const model::OpenedModel opened = open_run_model(options);
  const WorldShape one{.ranks = 1};
  EXPECT_EQ(make_run_plan(options, opened.model, one).memory(0).host, core::Bytes(0));
  EXPECT_EQ(first_difference(on_cpu(options, 2), beside_it(options, 2, 0.0)), "");
}

TEST(HostTier, FastOrderAndTensorRanks) {
  for (const int zero_stage : {0, 1, 2, 3}) {
    SCOPED_TRACE(zero_stage);
    TrainOptions options = host_options(true, core::DType::kBF16);
    options.sum_order = core::SumOrder::kFast;
    options.zero_stage = zero_stage;
    options.model_parallel_size = zero_stage % 2 + 1;
    EXPECT_EQ(first_difference(on_cpu(options, 2), beside_it(options, 2)), "");
  }
}

TEST(HostTier, AdaptersWithDropout) {
  TrainOptions options = host_options(true, core::DType::kBF16);
  options.lora.r = 3;
  options.lora.dropout = 0.3;
  options.lora.targets = {model::kAllLinear};
  options.lora.modules_to_save = {"norm"};
  options.zero_stage = 3;
  EXPECT_EQ(first_difference(on_cpu(options, 2), beside_it(options, 2)), "");
}

TEST(HostTier, TwentySeedsWithFewPlaces) {
  TrainOptions options = host_options(true, core::DType::kBF16);
  options.pipe_parallel_size = 2;
  options.zero_stage = 3;
  options.offload.optimizer_buffers = 1;  // a unit has up to two flat parameters
  const RunTrace expected = on_cpu(options, 2);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    EXPECT_EQ(first_difference(expected, beside_it(options, 2, 1.0, seed)), "") << "seed " << seed;
  }
}

TEST(HostTier, ThePlanCountsHostAndDeviceApart) {
  for (const core::DType element : {core::DType::kF32, core::DType::kBF16}) {
    TrainOptions options = host_options(true, element);
    options.device = {DeviceKind::kFake, 1};
    options.zero_stage = 2;
    const model::OpenedModel opened = open_run_model(options);
    comm::run_ranks(
        2,
        [&](comm::Communicator& world) {
          TrainOptions with = options;
          with.offload.optimizer = core::Tier::kHost;
          const auto device = device_of(with, world.rank());
          core::Ledger ledger;
          const RunPlan plan = make_run_plan(with, opened.model, shape_of(with, world));
          const MemoryForecast memory = plan.memory(0);
          RankState state(with, plan, opened.model, world, ledger, {device.get()});
          EXPECT_EQ(state.host_ledger.current(core::Account::kOptimizer), memory.host);
          EXPECT_EQ(state.host_ledger.peak_total(), memory.host);
          EXPECT_EQ(ledger.current(core::Account::kOptimizer), core::Bytes(0));
          EXPECT_EQ(memory.optimizer, core::Bytes(0));
          // Master and two moments of half the parameters, and the places.
          std::int64_t numbers = 0;
          for (const zero::FlatParam& at : state.layout.flat_params) {
            numbers += at.optimizer.count.count();
          }
          EXPECT_GT(memory.host.count(), 12 * numbers);
          const MemoryForecast without =
              make_run_plan(options, opened.model, shape_of(with, world)).memory(0);
          const int fp32 = element == core::DType::kF32 ? 2 : 3;
          EXPECT_EQ(without.optimizer.count(), 4 * fp32 * numbers);
          EXPECT_EQ(without.total() - memory.total(), without.optimizer);
          EXPECT_EQ(without.host, core::Bytes(0));
        },
        comm::kThreadsMs, comm::Between::kMessages);
  }
}

TEST(HostTier, WhatNoHostUpdatesIsRefused) {
  const auto plan = [](const auto& change) {
    TrainOptions options = host_options(true);
    options.device.kind = DeviceKind::kFake;
    options.offload.optimizer = core::Tier::kHost;
    change(options);
    const model::OpenedModel opened = open_run_model(options);
    make_run_plan(options, opened.model, WorldShape{.ranks = options.pipe_parallel_size});
  };
  const auto refused = [&](const std::string& part, const auto& change) {
    expect_error(core::ExitCode::kConfigError, part, [&] { plan(change); });
  };
  plan([](TrainOptions&) {});
  refused("move each element by itself",
          [](TrainOptions& options) { options.optimizer.rule = &optim::kLamb; });
  refused("move each element by itself",
          [](TrainOptions& options) { options.optimizer.rule = &optim::kMuon; });
  refused("validated later", [](TrainOptions& options) {
    options.pipe_parallel_size = 2;
    options.post_validation = true;
  });
  refused("which cuts parameters", [](TrainOptions& options) {
    options.zero_stage = 2;
    options.offload.params = core::Tier::kHost;
  });
  refused("needs an optimizer that the host updates", [](TrainOptions& options) {
    options.zero_stage = 3;
    options.offload.optimizer = core::Tier::kDevice;
    options.offload.params = core::Tier::kHost;
  });
}

// Whole runs.
class HostTierTrainer : public TrainerCase {
 protected:
  TrainOptions at(const TrainOptions& whole, const std::string& output, bool on_host) const {
    TrainOptions out = whole;
    out.output_dir = (folder() / output).string();
    out.device.kind = DeviceKind::kCpu;
    if (!on_host) return out;
    out.device = {DeviceKind::kFake, seed_of_tests()};
    out.offload.optimizer = core::Tier::kHost;
    return out;
  }
  static void expect_equal_files(const TrainOptions& a, const TrainOptions& b,
                                 const std::string& file) {
    const std::string one = content(std::filesystem::path(a.output_dir) / file);
    EXPECT_FALSE(one.empty()) << file;
    EXPECT_EQ(one, content(std::filesystem::path(b.output_dir) / file)) << file;
  }
  static void expect_equal_lines(const TrainOptions& a, const TrainOptions& b, int steps) {
    const auto one = metrics(a);
    const auto other = metrics(b);
    for (int step = 1; step <= steps; ++step) {
      EXPECT_EQ(one.at(step).loss, other.at(step).loss) << "step " << step;
      EXPECT_EQ(one.at(step).grad_norm, other.at(step).grad_norm) << "step " << step;
      EXPECT_EQ(one.at(step).skipped, other.at(step).skipped) << "step " << step;
    }
    EXPECT_EQ(one.at(steps).eval_loss, other.at(steps).eval_loss);
    EXPECT_GT(one.at(steps).eval_loss, 0.0);
  }
};

TEST_F(HostTierTrainer, GoesOnInAnotherTierWithTheSameBits) {
  for (const core::DType element : {core::DType::kF32, core::DType::kBF16}) {
    const std::string name(core::name_of(element));
    TrainOptions whole = at(options("", 6), "whole" + name, false);
    whole.element = element;
    whole.eval_data_path = whole.data_path;
    whole.save_steps = 2;
    ASSERT_EQ(run(whole), 0);
    TrainOptions part = at(whole, "part" + name, true);
    part.train_steps = 2;
    part.zero_stage = 3;
    ASSERT_EQ(run(part, 2), 0);
    part.train_steps = 4;
    part.offload.optimizer = core::Tier::kDevice;
    part.resume = checkpoint::Resume::kMust;
    ASSERT_EQ(run(part, 2), 0);
    part.train_steps = 6;
    part.offload.optimizer = core::Tier::kHost;
    part.offload.ratio = 0.6;
    part.zero_stage = 1;
    part.pipe_parallel_size = 2;
    ASSERT_EQ(run(part, 4), 0);
    expect_equal_lines(whole, part, 6);
    expect_equal_files(whole, part, "hf/model.safetensors");
    for (const char* const file : {"weights-0001", "exp_avg-0000", "exp_avg_sq-0003"}) {
      expect_equal_files(whole, part, std::string("global_step6/") + file + ".safetensors");
    }
  }
}

TEST_F(HostTierTrainer, AnOverflowIsFoundAndSkipped) {
  TrainOptions cpu = at(options("", 10), "cpu", false);
  cpu.element = core::DType::kF16;
  cpu.loss_scale = {.first = 0x1p22, .hysteresis = 1};
  cpu.eval_data_path = cpu.data_path;
  cpu.shared_memory = false;
  cpu.zero_stage = 2;
  const TrainOptions fake = at(cpu, "fake", true);
  ASSERT_EQ(run(cpu, 2), 0);
  ASSERT_EQ(run(fake, 2), 0);
  EXPECT_TRUE(metrics(cpu).at(1).skipped);
  EXPECT_FALSE(metrics(cpu).at(10).skipped);
  expect_equal_lines(cpu, fake, 10);
}

TEST_F(HostTierTrainer, GradientsAndMergedAdaptersAreWritten) {
  TrainOptions cpu = at(options("", 2), "cpu", false);
  cpu.element = core::DType::kBF16;
  cpu.lora.r = 3;
  cpu.lora.targets = {model::kAllLinear};
  cpu.zero_stage = 3;
  cpu.shared_memory = false;
  const TrainOptions fake = at(cpu, "fake", true);
  ASSERT_EQ(run(cpu, 2), 0);
  ASSERT_EQ(run(fake, 2), 0);
  expect_equal_files(cpu, fake, "hf/model.safetensors");
  expect_equal_files(cpu, fake, "adapter/adapter_model.safetensors");
}

}  // namespace
}  // namespace fm::engine
