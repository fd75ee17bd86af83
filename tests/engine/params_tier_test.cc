// Parameters that sleep on a disk change no bit of losses, norms and weights (docs/numbers.md,
// "Order of sums"). The store is this process's memory, whose moves happen when they are waited
// for: what is read too early is NaN.
#include <gtest/gtest.h>

#include <filesystem>
#include <mutex>
#include <tuple>

#include "core/text.h"
#include "engine/state/persistence.h"
#include "trainer_case.h"

namespace fm::engine {
namespace {

constexpr int kSteps = 3;

enum class Pipe : std::uint8_t { kNone, kOneFOneB, kGPipe };

TrainOptions options_of(bool tied, core::DType element = core::DType::kF32) {
  TrainOptions options = small_options(testing::TempDir() + "/fm_params_tier", tied);
  options.sum_order = core::SumOrder::kCanonical;
  options.element = element;
  if (element == core::DType::kF16) options.loss_scale = {.first = 4096.0};
  return options;
}

TrainOptions asleep(TrainOptions options) {
  options.zero_stage = 3;
  options.offload.params = core::Tier::kNvme;
  options.offload.params_in_host = 0;
  options.offload.disk.method = offload::DiskOptions::Method::kMemory;
  return options;
}

const RunTrace& reference(bool tied, core::DType element) {
  const auto run = [](bool of_tied, core::DType of) {
    return run_small(options_of(of_tied, of), 1, kSteps);
  };
  static const RunTrace untied_f32 = run(false, core::DType::kF32);
  static const RunTrace tied_f32 = run(true, core::DType::kF32);
  static const RunTrace bf16 = run(true, core::DType::kBF16);
  static const RunTrace f16 = run(true, core::DType::kF16);
  if (element == core::DType::kF32) return tied ? tied_f32 : untied_f32;
  return element == core::DType::kBF16 ? bf16 : f16;
}

using Cell = std::tuple<int, Pipe, bool, bool>;  // dp, pipe, recompute, tied
class ParamsTier : public testing::TestWithParam<Cell> {};

void expect_equal(const Cell& cell, TrainOptions options, const RunTrace& expected) {
  const auto [dp_size, pipe, recompute, tied] = cell;
  options.recompute = recompute;
  options.pipe_parallel_size = pipe == Pipe::kNone ? 1 : 2;
  options.schedule = &schedule_named(pipe == Pipe::kGPipe ? "gpipe" : "1f1b");
  for (const bool shared_memory : {true, false}) {
    if (recompute && !shared_memory) continue;
    SCOPED_TRACE(shared_memory ? "shared memory" : "messages");
    options.shared_memory = shared_memory;
    const bool alone = shared_memory && !recompute;  // or with the optimizer's state
    options.offload.optimizer = alone ? core::Tier::kDevice : core::Tier::kNvme;
    const RunTrace trace = run_small(options, dp_size, kSteps);
    ASSERT_EQ(trace.losses.size(), static_cast<std::size_t>(kSteps));
    EXPECT_EQ(first_difference(expected, trace), "");
  }
}

TEST_P(ParamsTier, EqualsOneRankWithoutOffloadBitForBit) {
  const bool tied = std::get<3>(GetParam());
  expect_equal(GetParam(), asleep(options_of(tied)), reference(tied, core::DType::kF32));
}

TEST_P(ParamsTier, NarrowTypesEqualOneRankWithoutOffloadBitForBit) {
  const auto [dp_size, pipe, recompute, tied] = GetParam();
  if (recompute || !tied) GTEST_SKIP() << "fp32 shows it";
  for (const core::DType element : {core::DType::kBF16, core::DType::kF16}) {
    SCOPED_TRACE(core::name_of(element));
    expect_equal(GetParam(), asleep(options_of(true, element)), reference(true, element));
  }
}

std::string name_of_cell(const testing::TestParamInfo<Cell>& info) {
  const auto [dp_size, pipe, recompute, tied] = info.param;
  const char* const pipes[] = {"NoPipe", "OneFOneB", "GPipe"};
  return core::concat("Dp", dp_size, pipes[static_cast<int>(pipe)],
                      recompute ? "Recompute" : "Keep", tied ? "Tied" : "Untied");
}

INSTANTIATE_TEST_SUITE_P(All, ParamsTier,
                         testing::Combine(testing::Values(1, 2, 4),
                                          testing::Values(Pipe::kNone, Pipe::kOneFOneB,
                                                          Pipe::kGPipe),
                                          testing::Bool(), testing::Bool()),
                         name_of_cell);

// Frozen parameters sleep, too, and are never awake.
TEST(ParamsTier, AdaptersOfFrozenParametersEqualOneRankBitForBit) {
  for (const core::DType element : {core::DType::kF32, core::DType::kBF16}) {
    SCOPED_TRACE(core::name_of(element));
    for (const bool tied : {false, true}) {
      TrainOptions options = options_of(tied, element);
      options.lora.r = 3;
      options.lora.alpha = 5.0;
      options.lora.dropout = 0.3;
      options.lora.targets = {"v_proj", "down_proj"};
      const RunTrace alone = run_small(options, 1, kSteps);
      for (const int pipe_ranks : {1, 2}) {
        options.pipe_parallel_size = pipe_ranks;
        EXPECT_EQ(first_difference(alone, run_small(asleep(options), 2, kSteps)), "");
      }
      options.pipe_parallel_size = 1;
    }
  }
}

TEST(ParamsTier, AnyPartOfThemMaySleepAndStayGathered) {
  TrainOptions options = asleep(options_of(true));
  for (const std::int64_t in_memory : {1, 60'000, 200'000}) {
    options.offload.params_in_host = in_memory;
    const RunTrace trace = run_small(options, 2, kSteps);
    EXPECT_EQ(first_difference(reference(true, core::DType::kF32), trace), "") << in_memory;
  }
  options.offload.params_in_host = 0;
  for (const int buffers : {2, 100}) {
    options.offload.param_buffers = buffers;
    options.regather = core::Regather::kPhase;
    const RunTrace trace = run_small(options, 2, kSteps);
    EXPECT_EQ(first_difference(reference(true, core::DType::kF32), trace), "") << buffers;
  }
}

// A window of 0 that the user said is one.
TEST(ParamsTier, APrefetchOfNothingGathersInTurn) {
  TrainOptions options = asleep(options_of(false));
  const model::OpenedModel opened = open_run_model(options);
  const auto slots = [&] {
    return make_run_plan(options, opened.model, {2}).pools(0).gather_slots;
  };
  EXPECT_GT(slots(), 1);
  options.prefetch_elements = 0;
  EXPECT_EQ(slots(), 1);
}

TEST(ParamsTier, NothingSleepsWhereAllStaysInMemory) {
  TrainOptions options = asleep(options_of(false));
  options.offload.params_in_host = 1'000'000'000;
  const model::OpenedModel opened = open_run_model(options);
  const WorldShape world{.ranks = 2, .sharing = core::ParamSharing::kOneHost};
  const RunPlan plan = make_run_plan(options, opened.model, world);
  EXPECT_EQ(plan.rules.plan.params, core::Home::kOncePerHost);
  options.offload.params_in_host = 0;
  EXPECT_EQ(make_run_plan(options, opened.model, world).rules.plan.params,
            core::Home::kOneSliceEach);
  options.zero_stage = 2;
  expect_error(core::ExitCode::kConfigError, "needs ZeRO stage 3",
               [&] { make_run_plan(options, opened.model, world); });
}

// Each account of the ledger is what the plan says, and of parameters that is the ring alone.
void expect_planned_memory(const TrainOptions& options, comm::Communicator& world,
                           std::mutex& mutex) {
  using core::Account;
  core::Ledger ledger;
  const model::OpenedModel opened = open_run_model(options);
  const RunPlan plan = make_run_plan(options, opened.model, shape_of(options, world));
  RankState state(options, plan, opened.model, world, ledger);
  fill_state(options, opened, state);
  SmallSteps steps(options, opened.model, state);
  for (int step = 1; step <= 2; ++step) steps.run(step);
  steps.settle();
  const MemoryForecast forecast = plan.memory(state.at.pipe_rank);
  const std::pair<Account, core::Bytes> planned[] = {
      {Account::kParams, forecast.params},       {Account::kGrads, forecast.grads},
      {Account::kOptimizer, forecast.optimizer}, {Account::kSlots, forecast.slots},
      {Account::kScratch, forecast.scratch},     {Account::kActivations, forecast.activations}};
  const std::scoped_lock lock(mutex);
  for (const auto& [account, bytes] : planned) {
    EXPECT_EQ(ledger.peak(account), bytes) << core::name_of(account);
  }
  core::Elements largest;
  for (const zero::FlatParam& at : state.layout.flat_params) {
    largest = std::max(largest, at.params.count);
  }
  EXPECT_EQ(forecast.params,
            core::round_up(core::bytes_of(largest, options.element), offload::kPage) *
                options.offload.optimizer_buffers);
}

TEST(ParamsTier, TheLedgerIsThePlanAndHoldsTheRingAlone) {
  for (const core::DType element : {core::DType::kF32, core::DType::kBF16}) {
    TrainOptions options = asleep(options_of(true, element));
    options.offload.optimizer = core::Tier::kNvme;
    options.offload.optimizer_buffers = 2;
    std::mutex mutex;
    const auto run = [&](comm::Communicator& world) {
      expect_planned_memory(options, world, mutex);
    };
    comm::run_ranks(2, run, comm::kThreadsMs, comm::Between::kSharedMemory);
  }
}

class ParamsTierRun : public TrainerCase {};

// Saved with parameters asleep, resumed without, and the other way round; evaluated and exported.
TEST_F(ParamsTierRun, ResumesEvaluatesAndExportsAsWithoutOffload) {
  for (const core::DType element : {core::DType::kF32, core::DType::kBF16}) {
    SCOPED_TRACE(core::name_of(element));
    TrainOptions whole = options(core::concat("whole_", core::name_of(element)), 4);
    whole.element = element;
    whole.eval_data_path = whole.data_path;
    whole.eval_steps = 2;
    whole.eval_batches = 2;
    ASSERT_EQ(run(whole), 0);
    for (const bool sleeps_first : {true, false}) {
      SCOPED_TRACE(sleeps_first);
      TrainOptions part = asleep(whole);
      part.output_dir = (folder() / core::concat("part", sleeps_first, core::name_of(element)));
      part.train_steps = 2;
      if (!sleeps_first) part.offload.params = core::Tier::kDevice;
      ASSERT_EQ(run(part, 2), 0);
      part.resume = checkpoint::Resume::kMust;
      part.train_steps = 4;
      part.offload.params = sleeps_first ? core::Tier::kDevice : core::Tier::kNvme;
      ASSERT_EQ(run(part, 4), 0);
      for (int step = 1; step <= 4; ++step) {
        EXPECT_EQ(metrics(whole).at(step).loss, metrics(part).at(step).loss) << step;
      }
      EXPECT_EQ(metrics(whole).at(4).eval_loss, metrics(part).at(4).eval_loss);
      const char* const weights = "hf/model.safetensors";
      EXPECT_EQ(content(std::filesystem::path(whole.output_dir) / weights),
                content(std::filesystem::path(part.output_dir) / weights));
    }
  }
}

}  // namespace
}  // namespace fm::engine
