// Every schedule between real processes: 2 and 4 of them under mpirun train with the losses and
// gradient norms of one rank, digit for digit, in canonical order, and of the same data ranks
// without a pipeline in fast order, as docs/numbers.md promises. Every ZeRO stage takes part.
// tests/engine/schedule_matrix_test.cc compares all combinations, weights too, between threads.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "core/check.h"
#include "tests/system/small_job.h"
#include "tests/system/system_case.h"
#include "tests/system/text_files.h"

namespace fm::system {
namespace {

namespace fs = std::filesystem;
using core::concat;

constexpr int kSteps = 2;
constexpr double kClipping = 0.05;

const std::vector<std::string> kSchedules = {
    "1f1b",  "gpipe",  "interleaved-1f1b", "looped-bfs", "zb-h1",     "zb-h2",
    "zb-1p", "zb-2p",  "interleaved-zb",   "zb-v",       "zb-v-auto", "v-half",
    "v-min", "1f1b-v", "dualpipe-v",       "layer-major"};

struct Cell {
  int ranks = 1;
  int pipe = 1;
  int zero_stage = 0;
  bool tied = false;
  std::string order = "canonical";
};

// What a cell has the bits of (docs/numbers.md, "Order of sums"): in canonical order one rank. In
// fast order as many data ranks without a pipeline, ZeRO 1 as 0 and ZeRO 3 as 2; a tied matrix has
// a gradient at each end of a pipeline, and there pipelines have the bits of each other.
Cell reference_of(const Cell& cell) {
  if (cell.order == "canonical") return {.tied = cell.tied};
  const int pipe = cell.tied ? 2 : 1;
  return {.ranks = pipe * cell.ranks / cell.pipe,
          .pipe = pipe,
          .zero_stage = cell.zero_stage / 2 * 2,
          .tied = cell.tied,
          .order = cell.order};
}

// 9 layers: no number of chunks above 3 cuts them evenly.
std::string nine_layers(const fs::path& folder, bool tied) {
  return write_file(folder / concat("nine", tied, ".json"),
                    concat(R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
    "vocab_size": 265, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 9,
    "num_attention_heads": 3, "num_key_value_heads": 1, "max_position_embeddings": 64,
    "tie_word_embeddings": )",
                           tied ? "true" : "false", "}"));
}

// 8 micro-batches a step, or as many as the data ranks leave of them.
std::string config_of(const fs::path& folder, const Cell& cell) {
  return write_file(folder / concat("ds", cell.zero_stage, cell.order, ".json"),
                    concat(R"({"train_batch_size": 8, "train_micro_batch_size_per_gpu": 1,
    "gradient_clipping": )",
                           kClipping, R"(, "communication_order": ")", cell.order,
                           R"(", "zero_optimization": {"stage": )", cell.zero_stage,
                           R"(}, "optimizer": {"type": "AdamW", "params": {"lr": 1e-2}}})"));
}

Launch launch_of(const Cell& cell, const std::string& schedule, const fs::path& folder,
                 const fs::path& output) {
  const SmallRun run{
      .config = config_of(folder, cell),
      .model = nine_layers(folder, cell.tied),
      .data = small_tokens(folder, 16),
      .output = output,
      .steps = kSteps,
      .more = {"--schedule", schedule, "--pipe_parallel_size", std::to_string(cell.pipe),
               "--threads", "1", "--save_strategy", "no"}};
  return {.starter = cell.ranks == 1 ? Starter::kAlone : Starter::kMpirun,
          .ranks = cell.ranks,
          .words = words_of(run),
          .variables = {}};
}

// Of 1F1B, each cell once for all schedules.
const StepTexts& steps_of(const Cell& cell) {
  using Key = std::tuple<int, int, int, bool, std::string>;
  static std::map<Key, StepTexts> known;
  const Key key{cell.ranks, cell.pipe, cell.zero_stage, cell.tied, cell.order};
  const auto [at, fresh] = known.try_emplace(key);
  if (!fresh) return at->second;
  const ScratchFolder scratch;
  const fs::path output = scratch.path() / "output";
  run_reference(launch_of(cell, "1f1b", scratch.path(), output), scratch.path() / "job");
  return at->second = steps_in(output);
}

class EveryScheduleOfProcesses : public SystemCase,
                                 public testing::WithParamInterface<std::string> {
 protected:
  void expect_bits_of_reference(const Cell& cell) {
    SCOPED_TRACE(concat(cell.ranks, " processes, ", cell.pipe, " pipe ranks, ZeRO ",
                        cell.zero_stage, cell.tied ? ", tied, " : ", ", cell.order));
    const fs::path output = folder() / concat("output", outputs_++);
    run_well(launch_of(cell, GetParam(), folder(), output));
    EXPECT_EQ(first_difference(steps_of(reference_of(cell)), steps_in(output), kSteps), "");
  }
  int place() const {
    return static_cast<int>(std::ranges::find(kSchedules, GetParam()) - kSchedules.begin());
  }

 private:
  int outputs_ = 0;
};
INSTANTIATE_TEST_SUITE_P(All, EveryScheduleOfProcesses, testing::ValuesIn(kSchedules),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::erase(name, '-');
                           return name;
                         });

// Every schedule meets every ZeRO stage, tied and untied weights.
TEST_P(EveryScheduleOfProcesses, HasTheBitsOfOneRankInCanonicalOrder) {
  const int first = place() % 4;
  const bool tied = place() % 2 == 1;
  expect_bits_of_reference({.ranks = 2, .pipe = 2, .zero_stage = first, .tied = tied});
  expect_bits_of_reference({.ranks = 4, .pipe = 4, .zero_stage = (first + 1) % 4, .tied = !tied});
  expect_bits_of_reference({.ranks = 4, .pipe = 2, .zero_stage = (first + 2) % 4, .tied = tied});
  expect_bits_of_reference({.ranks = 2, .pipe = 2, .zero_stage = (first + 3) % 4, .tied = !tied});
}

// 4 processes are 4 pipe ranks or 2 x 2 data ranks, by turns.
TEST_P(EveryScheduleOfProcesses, HasTheBitsOfNoPipelineInFastOrder) {
  for (const int zero_stage : {0, 1, 2, 3}) {
    const bool turn = (place() + zero_stage) % 2 == 1;
    const bool tied = (place() / 2 + zero_stage) % 2 == 1;
    Cell cell{.ranks = 2, .pipe = 2, .zero_stage = zero_stage, .tied = tied, .order = "fast"};
    expect_bits_of_reference(cell);
    cell.ranks = 4;
    cell.pipe = turn ? 4 : 2;
    cell.tied = !tied;
    expect_bits_of_reference(cell);
  }
}

using MeasuredTimes = SystemCase;

// A traced run of 1F1B, then searched schedules by its times; in the plan, microseconds that hold
// together.
TEST_F(MeasuredTimes, OfATraceServeALaterRunAndItsPlan) {
  const std::string trace = (folder() / "trace.json").string();
  const auto words = [&](const char* schedule, std::vector<std::string> more) {
    Launch launch = launch_of({.ranks = 2, .pipe = 2}, schedule, folder(), folder() / schedule);
    launch.words.insert(launch.words.end(), more.begin(), more.end());
    return launch;
  };
  run_well(words("1f1b", {"--trace", trace, "--trace_steps", "2"}));
  for (const char* schedule : {"zb-2p", "auto"}) {
    run_well(words(schedule, {"--plan_times", trace}));
    EXPECT_EQ(first_difference(steps_of({}), steps_in(folder() / schedule), kSteps), "");
  }
  Launch plan = words("1f1b", {"--plan", "--json", "--plan_ranks", "2", "--plan_times", trace});
  plan.starter = Starter::kAlone;
  const nlohmann::json planned = nlohmann::json::parse(run_well(plan).out);
  EXPECT_EQ(planned.at("time_unit"), "us");
  EXPECT_GT(planned.at("makespan").get<double>(), 100.0);  // 8 micro-batches of 9 layers
  EXPECT_LT(planned.at("makespan").get<double>(), 10e6);
  EXPECT_GT(planned.at("bubble").get<double>(), 0.0);
}

TEST(SchedulesOfProcesses, AreAllThatTheProgramKnows) {
  const ScratchFolder scratch;
  Launch launch = launch_of({}, "nonesuch", scratch.path(), scratch.path() / "output");
  const Ended ended = Job(launch, scratch.path() / "job").wait(kLimitMs);
  EXPECT_EQ(ended.codes, std::vector<int>{10});
  std::string names;
  for (const std::string& name : kSchedules) names += name + ", ";
  EXPECT_EQ(occurrences(ended.err, "must be one of auto, " + names + "or a FILE.csv"), 1)
      << ended.err;
}

TEST(SchedulesOfProcesses, TheReferenceLearnsAndClips) {
  for (const bool tied : {false, true}) {
    const StepTexts& steps = steps_of({.tied = tied});
    ASSERT_EQ(steps.size(), static_cast<std::size_t>(kSteps));
    EXPECT_NE(steps.at(1), steps.at(2));
    for (const auto& [step, text] : steps) {
      EXPECT_GT(std::stod(text.substr(text.find(' '))), kClipping) << text;
    }
  }
}

// Otherwise a sum in the wrong order could pass.
TEST(SchedulesOfProcesses, TheReferencesOfTheFastOrderAreDifferent) {
  std::set<StepTexts> all;
  for (const int ranks : {2, 4}) {
    for (const int zero_stage : {0, 2}) {
      const Cell cell{.ranks = ranks, .pipe = 2, .zero_stage = zero_stage, .order = "fast"};
      all.insert(steps_of(reference_of(cell)));
    }
  }
  EXPECT_EQ(all.size(), 4U);
}

}  // namespace
}  // namespace fm::system
