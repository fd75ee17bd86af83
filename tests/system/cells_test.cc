// Ten cells of the canonical matrix as processes: losses, gradient norms and the exported weights
// equal those of one process, bit for bit.
#include "core/check.h"
#include "tests/system/small_job.h"
#include "tests/system/system_case.h"
#include "tests/system/text_files.h"

namespace fm::system {
namespace {

constexpr int kSteps = 5;

struct Cell {
  const char* name;
  Starter starter;
  int zero_stage;
  int data_ranks;
  const char* schedule;  // "": no pipeline, else of 2 pipe ranks
  bool recompute;
  bool tied;
  const char* shared_memory = "true";
};

constexpr Cell kCells[] = {
    {"Zero0Dp2", Starter::kMpirun, 0, 2, "", false, false},
    {"Zero1Dp4RecomputeTied", Starter::kMpirun, 1, 4, "", true, true},
    {"Zero2Dp2OneFOneBTied", Starter::kMpirun, 2, 2, "1f1b", false, true},
    {"Zero3Dp1GPipeRecompute", Starter::kMpirun, 3, 1, "gpipe", true, false},
    {"Zero0Dp1OneFOneBTied", Starter::kByHand, 0, 1, "1f1b", false, true},
    {"Zero1Dp2GPipeRecomputeTied", Starter::kByHand, 1, 2, "gpipe", true, true},
    {"Zero2Dp4Recompute", Starter::kByHand, 2, 4, "", true, false},
    {"Zero3Dp2OneFOneB", Starter::kByHand, 3, 2, "1f1b", false, false},
    {"Zero2Dp2OneFOneBMessages", Starter::kMpirun, 2, 2, "1f1b", false, true, "false"},
    {"Zero3Dp2Messages", Starter::kByHand, 3, 2, "", false, false, "false"},
};

void PrintTo(const Cell& cell, std::ostream* out) { *out << cell.name; }

struct Trace {
  StepTexts steps;
  std::string weights;  // bytes of model.safetensors
};

Launch launch_of(const Cell& cell, const std::filesystem::path& folder) {
  std::string more = R"("communication_order": "canonical")";
  if (cell.recompute) more += R"(, "activation_checkpointing": {})";
  SmallRun run{.config = small_config(folder, cell.zero_stage, more),
               .model = odd_model(folder, cell.tied),
               .data = small_tokens(folder, 24),
               .output = folder / cell.name,
               .steps = kSteps,
               .more = {}};
  run.more = {"--shm", cell.shared_memory};
  const bool pipelined = *cell.schedule != '\0';
  if (pipelined) {
    run.more.insert(run.more.end(), {"--pipe_parallel_size", "2", "--schedule", cell.schedule});
  }
  return {.starter = cell.starter,
          .ranks = cell.data_ranks * (pipelined ? 2 : 1),
          .words = words_of(run),
          .variables = {}};
}

Trace trace_of(const std::filesystem::path& output) {
  return {steps_in(output), content_of(output / "hf" / "model.safetensors")};
}

// One process, ZeRO 0, no pipeline, nothing recomputed.
const Trace& reference(bool tied) {
  const auto make = [](bool of_tied) {
    const ScratchFolder scratch;
    const Cell alone{"Alone", Starter::kAlone, 0, 1, "", false, of_tied};
    run_reference(launch_of(alone, scratch.path()), scratch.path() / "job");
    return trace_of(scratch.path() / alone.name);
  };
  static const Trace of_untied = make(false);
  static const Trace of_tied = make(true);
  return tied ? of_tied : of_untied;
}

class Cells : public SystemCase, public testing::WithParamInterface<Cell> {};

TEST_P(Cells, EqualOneProcessBitForBit) {
  const Trace& expected = reference(GetParam().tied);
  ASSERT_GT(expected.weights.size(), 100'000U);
  const Ended ended = run_well(launch_of(GetParam(), folder()));
  const Trace got = trace_of(folder() / GetParam().name);
  EXPECT_EQ(first_difference(expected.steps, got.steps, kSteps), "") << ended.err;
  EXPECT_TRUE(expected.weights == got.weights) << "model.safetensors differs";
}
INSTANTIATE_TEST_SUITE_P(Named, Cells, testing::ValuesIn(kCells), [](const auto& cell) {
  return name_of(cell.param.starter) + cell.param.name;
});

// The comparison would see a difference: another seed changes every step and the weights.
TEST_F(SystemCase, AnotherSeedGivesOtherLossesAndWeights) {
  Launch launch = launch_of({"Seed", Starter::kAlone, 0, 1, "", false, false}, folder());
  launch.words.insert(launch.words.end(), {"--seed", "3408"});
  run_well(launch);
  const Trace got = trace_of(folder() / "Seed");
  EXPECT_NE(first_difference(reference(false).steps, got.steps, kSteps), "");
  EXPECT_EQ(reference(false).weights.size(), got.weights.size());
  EXPECT_FALSE(reference(false).weights == got.weights);
}

}  // namespace
}  // namespace fm::system
