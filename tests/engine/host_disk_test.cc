// Optimizer state that sleeps on drives beside a device, whose host updates it, and parameters that
// lie in that host's memory: the bits of one rank of this CPU. In the matrix the store is one of
// tests, whose moves happen when they are waited for, and where what is read too early is NaN.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <tuple>

#include "core/check.h"
#include "core/fault.h"
#include "model/units/lora.h"
#include "trainer_case.h"

namespace fm::engine {
namespace {

constexpr int kSteps = 3;

// 4 micro-batches, so that ranks have some to add up.
TrainOptions disk_options(bool tied, core::DType element = core::DType::kF32) {
  TrainOptions options =
      thin_options(testing::TempDir() + "/fm_host_disk", tied, {4, 24, 3, 1, 40});
  options.max_seq_len = 5;
  options.batch = {4, 1, {}};
  options.element = element;
  if (element == core::DType::kF16) options.loss_scale = {.first = 4096.0};
  options.shared_memory = false;
  return options;
}

TrainOptions beside_device(TrainOptions options, std::uint64_t seed = 1) {
  options.device = {DeviceKind::kFake, seed};
  options.offload.optimizer = core::Tier::kNvme;
  options.offload.disk.method = offload::DiskOptions::Method::kMemory;
  return options;
}

const RunTrace& reference(bool tied, core::DType element) {
  static std::map<std::pair<bool, core::DType>, RunTrace> runs;
  const auto [at, fresh] = runs.try_emplace({tied, element});
  if (fresh) at->second = run_small(disk_options(tied, element), 1, kSteps);
  return at->second;
}

using Cell = std::tuple<int, int, const char*, bool>;  // zero, dp, schedule, tied
class HostDisk : public testing::TestWithParam<Cell> {};

TEST_P(HostDisk, EqualsOneRankOfThisCpuBitForBit) {
  const auto [zero_stage, dp_size, schedule, tied] = GetParam();
  for (const core::DType element : {core::DType::kF32, core::DType::kBF16}) {
    for (const int pipe_ranks : {1, 2}) {
      TrainOptions options = beside_device(disk_options(tied, element));
      options.schedule = &schedule_named(schedule);
      options.zero_stage = zero_stage;
      options.pipe_parallel_size = pipe_ranks;
      options.recompute = zero_stage == 3;
      options.gradient_clipping = 0.05;
      EXPECT_EQ(first_difference(reference(tied, element), run_small(options, dp_size, kSteps)), "")
          << core::name_of(element) << ", " << pipe_ranks << " pipe ranks";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, HostDisk,
                         testing::Combine(testing::Values(1, 2, 3), testing::Values(1, 2),
                                          testing::Values("1f1b", "layer-major"), testing::Bool()),
                         [](const auto& cell) {
                           return "Zero" + std::to_string(std::get<0>(cell.param)) + "Dp" +
                                  std::to_string(std::get<1>(cell.param)) +
                                  (*std::get<2>(cell.param) == '1' ? "OneFOneB" : "LayerMajor") +
                                  (std::get<3>(cell.param) ? "Tied" : "Untied");
                         });

TEST(HostDisk, RingsAndTimesOfAnyKind) {
  for (const core::DType element : {core::DType::kF32, core::DType::kF16}) {
    for (const int buffers : {1, 3, 100}) {
      for (std::uint64_t seed = 2; seed <= 5; ++seed) {
        TrainOptions options = beside_device(disk_options(true, element), seed);
        options.zero_stage = 2;
        options.offload.optimizer_buffers = buffers;
        options.offload.reads_ahead = options.offload.writes_behind = seed % 2 == 0;
        EXPECT_EQ(first_difference(reference(true, element), run_small(options, 2, kSteps)), "")
            << core::name_of(element) << ", " << buffers << " buffers, seed " << seed;
      }
    }
  }
}

// Slices of parameters lie in the host's memory or on drives, and so does their state.
using Tiers = std::tuple<int, core::Tier, core::Tier, bool>;  // dp, optimizer, parameters, tied
class HostParams : public testing::TestWithParam<Tiers> {};

TrainOptions with_params(TrainOptions options, core::Tier params) {
  options.zero_stage = 3;
  options.offload.params = params;
  options.offload.params_in_host = 0;
  return options;
}

TEST_P(HostParams, EqualOneRankOfThisCpuBitForBit) {
  const auto [dp_size, optimizer, params, tied] = GetParam();
  for (const core::DType element : {core::DType::kF32, core::DType::kBF16}) {
    for (const char* const schedule : {"1f1b", "layer-major"}) {
      for (const int pipe_ranks : {1, 2}) {
        TrainOptions options = with_params(beside_device(disk_options(tied, element)), params);
        options.offload.optimizer = optimizer;
        options.schedule = &schedule_named(schedule);
        options.pipe_parallel_size = pipe_ranks;
        EXPECT_EQ(first_difference(reference(tied, element), run_small(options, dp_size, kSteps)),
                  "")
            << core::name_of(element) << ", " << schedule << ", " << pipe_ranks << " pipe ranks";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, HostParams,
    testing::Combine(testing::Values(1, 2), testing::Values(core::Tier::kHost, core::Tier::kNvme),
                     testing::Values(core::Tier::kHost, core::Tier::kNvme), testing::Bool()),
    [](const auto& cell) {
      const auto name = [](core::Tier tier) { return tier == core::Tier::kHost ? "Host" : "Nvme"; };
      return "Dp" + std::to_string(std::get<0>(cell.param)) + "State" +
             name(std::get<1>(cell.param)) + "Params" + name(std::get<2>(cell.param)) +
             (std::get<3>(cell.param) ? "Tied" : "Untied");
    });

// Few places, so that slices wait for one; a part of the state on the device, whose parameters stay
// there; and a part of the parameters in memory.
TEST(HostParams, TimesOfAnyKindAndAPartOfTheState) {
  for (std::uint64_t seed = 2; seed <= 7; ++seed) {
    for (const int ranks : {1, 2}) {
      const core::Tier params = seed % 4 < 2 ? core::Tier::kHost : core::Tier::kNvme;
      TrainOptions options =
          with_params(beside_device(disk_options(true, core::DType::kBF16), seed), params);
      options.offload.optimizer = core::Tier::kHost;
      options.offload.optimizer_buffers = 1;
      options.offload.ratio = seed % 2 == 0 ? 1.0 : 0.5;
      options.offload.params_in_host = seed % 3 == 0 ? 20'000 : 0;
      options.recompute = true;
      EXPECT_EQ(
          first_difference(reference(true, core::DType::kBF16), run_small(options, ranks, kSteps)),
          "")
          << "seed " << seed << ", " << ranks << " ranks";
    }
  }
}

// Early updates need no clipping; beside a device they wait for the norm all the same.
TEST(HostDisk, WithoutClippingNothingIsUpdatedEarly) {
  TrainOptions options = disk_options(false, core::DType::kBF16);
  options.gradient_clipping = 0.0;
  const RunTrace alone = run_small(options, 1, kSteps);
  options.zero_stage = 3;
  options.schedule = &schedule_named("layer-major");
  EXPECT_EQ(first_difference(alone, run_small(beside_device(options), 2, kSteps)), "");
}

TEST(HostDisk, ASkippedStepLeavesWhatSleepsAsItWas) {
  const auto run = [&](const TrainOptions& options, int ranks) {
    core::arm_faults("point=bwd.layer,step=2,action=nan");
    const RunTrace trace = run_small(options, ranks, kSteps);
    core::arm_faults("");
    return trace;
  };
  const RunTrace alone = run(disk_options(true), 1);
  EXPECT_FALSE(std::isfinite(alone.norms[1]));
  TrainOptions options = beside_device(disk_options(true));
  options.zero_stage = 3;
  EXPECT_EQ(first_difference(alone, run(options, 2)), "");
}

TEST(HostDisk, AdaptersOfFrozenParameters) {
  TrainOptions options = disk_options(true, core::DType::kBF16);
  options.lora.r = 3;
  options.lora.dropout = 0.3;
  options.lora.targets = {model::kAllLinear};
  options.lora.modules_to_save = {"norm"};
  const RunTrace alone = run_small(options, 1, kSteps);
  options.zero_stage = 3;
  EXPECT_EQ(first_difference(alone, run_small(beside_device(options), 2, kSteps)), "");
  for (const core::Tier params : {core::Tier::kHost, core::Tier::kNvme}) {
    options = with_params(options, params);
    EXPECT_EQ(first_difference(alone, run_small(beside_device(options), 2, kSteps)), "");
  }
}

// Rings of moments and masters, which have a place for each of these few units, and two places for
// gradients, and of narrow types for what goes up.
TEST(HostDisk, ThePlanCountsBothMemories) {
  for (const core::DType element : {core::DType::kF32, core::DType::kBF16}) {
    TrainOptions options = beside_device(disk_options(true, element));
    options.zero_stage = 2;
    const model::OpenedModel opened = open_run_model(options);
    comm::run_ranks(
        2,
        [&](comm::Communicator& world) {
          const auto device = device_of(options, world.rank());
          core::Ledger ledger;
          const RunPlan plan = make_run_plan(options, opened.model, shape_of(options, world));
          const MemoryForecast memory = plan.memory(0);
          RankState state(options, plan, opened.model, world, ledger, {device.get()});
          EXPECT_EQ(state.host_ledger.peak_total(), memory.host);
          EXPECT_EQ(ledger.current(core::Account::kOptimizer), core::Bytes(0));
          EXPECT_EQ(memory.optimizer, core::Bytes(0));
          std::int64_t largest = 0;
          std::int64_t asleep = 0;
          for (const zero::FlatParam& at : state.layout.flat_params) {
            largest = std::max(largest, at.optimizer.count.count());
            asleep += 12 * at.optimizer.count.count();
          }
          const int place = element == core::DType::kF32 ? 4 : 6;
          EXPECT_EQ(memory.host.count(), asleep + largest * 2 * place);
          EXPECT_EQ(state.store->bytes().count(), asleep);
        },
        comm::kThreadsMs, comm::Between::kMessages);
  }
}

TEST(HostParams, ThePlanCountsBothMemories) {
  TrainOptions options = beside_device(disk_options(true, core::DType::kBF16));
  options.zero_stage = 3;
  options.offload.optimizer = core::Tier::kHost;
  options.offload.params = core::Tier::kHost;
  const model::OpenedModel opened = open_run_model(options);
  comm::run_ranks(
      2,
      [&](comm::Communicator& world) {
        const auto device = device_of(options, world.rank());
        core::Ledger ledger;
        const RunPlan plan = make_run_plan(options, opened.model, shape_of(options, world));
        const MemoryForecast memory = plan.memory(0);
        RankState state(options, plan, opened.model, world, ledger, {device.get()});
        EXPECT_EQ(state.host_ledger.peak_total(), memory.host);
        EXPECT_EQ(ledger.current(core::Account::kParams), core::Bytes(0));
        EXPECT_EQ(memory.params, core::Bytes(0));
        std::int64_t largest = 0;
        std::int64_t numbers = 0;
        for (const zero::FlatParam& at : state.layout.flat_params) {
          largest = std::max(largest, at.optimizer.count.count());
          numbers += at.optimizer.count.count();
        }
        // Nothing goes up behind an update, so that places are of gradients alone.
        EXPECT_EQ(memory.host.count(), numbers * (12 + 2) + largest * 4 * 4);
      },
      comm::kThreadsMs, comm::Between::kMessages);
}

TEST(HostParams, ThePlanCountsWhatIsAwake) {
  const TrainOptions options =
      with_params(beside_device(disk_options(true, core::DType::kBF16)), core::Tier::kNvme);
  const model::OpenedModel opened = open_run_model(options);
  comm::run_ranks(
      2,
      [&](comm::Communicator& world) {
        const auto device = device_of(options, world.rank());
        core::Ledger ledger;
        const RunPlan plan = make_run_plan(options, opened.model, shape_of(options, world));
        const MemoryForecast memory = plan.memory(0);
        RankState state(options, plan, opened.model, world, ledger, {device.get()});
        EXPECT_EQ(state.host_ledger.peak_total(), memory.host);
        EXPECT_EQ(ledger.current(core::Account::kParams), core::Bytes(0));
        EXPECT_EQ(memory.params, core::Bytes(0));
        EXPECT_GT(state.params_store->bytes().count(), 0);
      },
      comm::kThreadsMs, comm::Between::kMessages);
}

TEST(HostDisk, WhatNoHostUpdatesIsRefused) {
  const auto refused = [](const std::string& part, const auto& change) {
    TrainOptions options = beside_device(disk_options(true));
    options.zero_stage = 1;
    change(options);
    const model::OpenedModel opened = open_run_model(options);
    expect_error(core::ExitCode::kConfigError, part, [&] {
      make_run_plan(options, opened.model, WorldShape{.ranks = options.pipe_parallel_size});
    });
  };
  refused("move each element by itself",
          [](TrainOptions& options) { options.optimizer.rule = &optim::kMuon; });
  refused("needs ZeRO stage 1, 2 or 3", [](TrainOptions& options) { options.zero_stage = 0; });
  refused("needs the state from before", [](TrainOptions& options) {
    options.pipe_parallel_size = 2;
    options.post_validation = true;
  });
}

// Whole runs on this machine's disk.
class HostDiskTrainer : public TrainerCase {
 protected:
  TrainOptions asleep(TrainOptions options) const {
    options.device = {DeviceKind::kFake, 1};
    options.shared_memory = false;
    options.offload.optimizer = core::Tier::kNvme;
    options.offload.optimizer_paths = {(folder() / "drive").string()};
    options.offload.disk.block_bytes = 64 << 10;
    return options;
  }
  void expect_equal(const TrainOptions& whole, const TrainOptions& part, int steps) {
    for (int step = 1; step <= steps; ++step) {
      EXPECT_EQ(metrics(whole).at(step).loss, metrics(part).at(step).loss) << step;
      EXPECT_EQ(metrics(whole).at(step).grad_norm, metrics(part).at(step).grad_norm) << step;
    }
    EXPECT_EQ(metrics(whole).at(steps).eval_loss, metrics(part).at(steps).eval_loss);
    const std::string saved = "global_step" + std::to_string(steps) + "/";
    for (const std::string& file :
         {saved + "weights-0001.safetensors", saved + "exp_avg-0000.safetensors",
          saved + "exp_avg_sq-0003.safetensors", std::string("hf/model.safetensors")}) {
      const std::string one = content(std::filesystem::path(whole.output_dir) / file);
      EXPECT_FALSE(one.empty()) << file;
      EXPECT_EQ(one, content(std::filesystem::path(part.output_dir) / file)) << file;
    }
  }
};

TEST_F(HostDiskTrainer, SavesResumesAndExportsWithTheSameBits) {
  for (const core::DType element : {core::DType::kF32, core::DType::kBF16}) {
    const std::string name(core::name_of(element));
    SCOPED_TRACE(name);
    TrainOptions whole = options("whole" + name, 6);
    whole.element = element;
    whole.save_steps = 2;
    whole.eval_data_path = whole.data_path;
    ASSERT_EQ(run(whole), 0);
    TrainOptions part = whole;
    part.output_dir = (folder() / ("part" + name)).string();
    part.train_steps = 3;
    part.zero_stage = 3;
    part.offload.params = core::Tier::kHost;
    ASSERT_EQ(run(asleep(part), 2), 0);
    part.offload.params = core::Tier::kDevice;
    EXPECT_TRUE(std::filesystem::is_empty(folder() / "drive"));
    part.train_steps = 4;
    part.zero_stage = 0;
    ASSERT_EQ(run(part), 0);
    part.train_steps = 6;
    part.zero_stage = 3;
    part.pipe_parallel_size = 2;
    part.offload.params = core::Tier::kNvme;
    part.offload.params_in_host = 0;
    part.offload.param_paths = {(folder() / "drive").string()};
    ASSERT_EQ(run(asleep(part), 4), 0);
    EXPECT_TRUE(std::filesystem::is_empty(folder() / "drive"));
    expect_equal(whole, part, 6);
  }
}

}  // namespace
}  // namespace fm::engine
