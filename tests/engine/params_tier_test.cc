// Parameters that sleep on a disk change no bit of losses, norms and weights (docs/numbers.md,
// "Order of sums"). The store is this process's memory, whose moves happen when they are waited
// for: what is read too early is NaN.
#include <gtest/gtest.h>

#include <tuple>

#include "core/text.h"
#include "small_run.h"

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

}  // namespace
}  // namespace fm::engine
