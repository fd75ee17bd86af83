// Whole runs through train(): files, evaluation, skips.
#include "engine/run/trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "checkpoint/safetensors_file.h"
#include "core/fault.h"
#include "trainer_case.h"

namespace fm::engine {
namespace {

namespace fs = std::filesystem;
using TrainerTest = TrainerCase;

void put_nan(const fs::path& file, const std::string& tensor, std::int64_t element) {
  const checkpoint::TensorFile opened(file.string());
  const std::int64_t at = opened.find(tensor)->begin.count() + 4 * element;
  const float nan = std::nanf("");
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary)
      .seekp(at)
      .write(reinterpret_cast<const char*>(&nan), sizeof nan);
}

// How each rank ends: its exit code and its message.
std::vector<std::string> endings(const TrainOptions& options, int ranks) {
  std::vector<std::string> out(static_cast<std::size_t>(ranks));
  comm::run_ranks(ranks, [&](comm::Communicator& world) {
    std::string& mine = out[static_cast<std::size_t>(world.rank())];
    try {
      train(options, open_run_model(options), world, {});
    } catch (const core::Error& error) {
      mine = core::concat(static_cast<int>(error.code()), ": ", error.what());
    }
  });
  return out;
}

TEST_F(TrainerTest, ContinuesFromItsExportAsNewRun) {
  const TrainOptions first = options("first", 2);
  ASSERT_EQ(run(first), 0);
  TrainOptions second = options("second", 1);
  second.init_ckpt = first.output_dir + "/hf";
  second.model_config.clear();
  ASSERT_EQ(run(second, 2), 0);
  EXPECT_LT(metrics(second).at(1).loss, metrics(first).at(1).loss);
}

// One element of the second layer, which rank 1 of two pipe ranks reads, or one of two data ranks.
TEST_F(TrainerTest, WeightsThatAreNotFiniteEndEveryRankBeforeStepOne) {
  const TrainOptions first = options("first", 1);
  ASSERT_EQ(run(first), 0);
  const fs::path model = fs::path(first.output_dir) / "hf";
  put_nan(model / "model.safetensors", "model.layers.4.mlp.down_proj.weight", 1);
  for (const int zero_stage : {0, 3}) {
    for (const int pipe : {1, 2}) {
      TrainOptions second = options("second", 2);
      second.init_ckpt = model.string();
      second.model_config.clear();
      second.zero_stage = zero_stage;
      second.pipe_parallel_size = pipe;
      const std::vector<std::string> ends = endings(second, 4);
      for (const std::string& end : ends) {
        EXPECT_EQ(end, ends[0]);
        EXPECT_EQ(end.find("11: "), 0U) << end;
        EXPECT_NE(end.find("model.safetensors: tensor model.layers.4.mlp.down_proj.weight"),
                  std::string::npos)
            << end;
        EXPECT_NE(end.find("element [0, 1] is nan"), std::string::npos) << end;
      }
      EXPECT_TRUE(metrics(second).empty());
    }
  }
}

// 40 windows in the file.
TEST_F(TrainerTest, FewerSamplesThanAStepNeedsAreRefusedUnlessTheyMayRepeat) {
  TrainOptions greedy = options("greedy", 1);
  greedy.batch = {44, 1, {}};
  expect_error(core::ExitCode::kConfigError, "(40 samples, train_batch_size=44)",
               [&] { run(greedy, 2); });
  greedy.allow_repeat = true;
  EXPECT_EQ(run(greedy, 2), 0);
  TrainOptions just = options("just", 1);
  just.batch = {40, 1, {}};
  EXPECT_EQ(run(just, 2), 0);
}

TEST_F(TrainerTest, EvaluationSeesTheSameLossInEveryLayout) {
  TrainOptions one = options("one", 2);
  one.eval_data_path = one.data_path;
  one.eval_steps = 1;
  ASSERT_EQ(run(one), 0);
  TrainOptions other = one;
  other.output_dir = (folder() / "other").string();
  other.zero_stage = 3;
  other.pipe_parallel_size = 2;
  ASSERT_EQ(run(other, 4), 0);
  for (const int step : {1, 2}) {
    const double loss = metrics(one).at(step).eval_loss;
    EXPECT_NEAR(loss, std::log(777.0), 0.3);
    EXPECT_NEAR(metrics(other).at(step).eval_loss, loss, 1e-8 * loss) << step;
    EXPECT_NEAR(metrics(one).at(step).perplexity, std::exp(loss), 1e-4 * std::exp(loss));
  }
}

// 40 windows of 17 ids and steps of 4: a learning rate of 0 leaves the weights alone, so the mean
// of ten steps' losses is the evaluation loss.
TEST_F(TrainerTest, EvaluationIsTheMeanOfTheTrainingLossesOfAFrozenModel) {
  TrainOptions frozen = options("frozen", 10);
  frozen.optimizer.lr = 0.0;
  frozen.eval_data_path = frozen.data_path;
  frozen.eval_steps = 10;
  ASSERT_EQ(run(frozen, 2), 0);
  const auto lines = metrics(frozen);
  double sum = 0.0;
  for (const auto& [step, line] : lines) sum += line.loss;
  EXPECT_NEAR(lines.at(10).eval_loss, sum / 10.0, 1e-6);
}

// The same, of the first two of ten steps.
TEST_F(TrainerTest, EvaluationBatchesAreStepsWorthOfSamples) {
  TrainOptions frozen = options("frozen", 2);
  frozen.optimizer.lr = 0.0;
  frozen.eval_data_path = frozen.data_path;
  frozen.eval_steps = 2;
  frozen.eval_batches = 2;
  ASSERT_EQ(run(frozen, 2), 0);
  const auto lines = metrics(frozen);
  const double sum = lines.at(1).loss + lines.at(2).loss;
  EXPECT_NEAR(lines.at(2).eval_loss, sum / 2.0, 1e-6);
}

TEST_F(TrainerTest, ANonFiniteGradientSkipsTheStepAndIsNamed) {
  core::arm_faults("rank=1,step=2,point=bwd.layer,action=nan");
  const TrainOptions poisoned = options("poisoned", 3);
  testing::internal::CaptureStderr();
  ASSERT_EQ(run(poisoned, 2), 0);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("world rank 1"), std::string::npos) << said;
  EXPECT_NE(said.find("micro-batch 0"), std::string::npos) << said;
  EXPECT_NE(said.find("model.layers.4."), std::string::npos) << said;
  const auto lines = metrics(poisoned);
  EXPECT_FALSE(lines.at(1).skipped);
  EXPECT_TRUE(lines.at(2).skipped);
  EXPECT_FALSE(lines.at(2).grad_norm);
  EXPECT_FALSE(lines.at(3).skipped);
  // Running the step again to find the place is no part of it. Phases are written to a microsecond.
  constexpr double kRounding = 0.01;
  for (const auto& [step, line] : lines) {
    EXPECT_LT(line.phases_ms, 1.001 * line.step_time_ms + kRounding) << step;
  }
}

TEST_F(TrainerTest, TenSkippedStepsInARowStopTheRun) {
  core::arm_faults("point=bwd.layer,action=nan");
  const TrainOptions poisoned = options("poisoned", 30);
  expect_error(core::ExitCode::kNumericLimit, "10 steps skipped in a row", [&] { run(poisoned); });
  EXPECT_EQ(metrics(poisoned).size(), 10U);
}

TEST_F(TrainerTest, ScatteredSkipsDoNotStopTheRun) {
  core::arm_faults("step=2,point=bwd.layer,action=nan;step=4,point=bwd.layer,action=nan");
  TrainOptions poisoned = options("poisoned", 5);
  poisoned.max_consecutive_skips = 2;
  EXPECT_EQ(run(poisoned), 0);
  const auto lines = metrics(poisoned);
  ASSERT_EQ(lines.size(), 5U);
  for (const auto& [step, line] : lines) EXPECT_EQ(line.skipped, step == 2 || step == 4) << step;
}

TEST_F(TrainerTest, ASkippedStepMovesNeitherWeightsNorSchedule) {
  TrainOptions clean = options("clean", 3);
  clean.scheduler.rule = &optim::kWarmupLr;
  clean.scheduler.warmup_num_steps = 5;
  ASSERT_EQ(run(clean), 0);
  core::arm_faults("step=2,point=bwd.layer,action=nan");
  TrainOptions skipped = clean;
  skipped.output_dir = (folder() / "skipped").string();
  ASSERT_EQ(run(skipped), 0);
  // WarmupLR from 0 with DeepSpeed's rule: updates 1 and 2 run at 0, so step 3 after one skip is
  // the second update and still runs at 0.
  EXPECT_GT(metrics(clean).at(3).lr, 0.0);
  EXPECT_EQ(metrics(skipped).at(3).lr, 0.0);
}

TEST_F(TrainerTest, ADryRunWritesNothing) {
  TrainOptions dry = options("dry", 2);
  dry.dry_run = true;
  dry.save_steps = 1;
  dry.cache_dir = (folder() / "cache").string();
  const auto names = [&] {
    std::set<fs::path> seen;
    for (const auto& entry : fs::recursive_directory_iterator(folder())) seen.insert(entry.path());
    return seen;
  };
  const std::set<fs::path> before = names();
  testing::internal::CaptureStdout();
  ASSERT_EQ(run(dry), 0);
  const std::string said = testing::internal::GetCapturedStdout();
  EXPECT_NE(said.find("plan for 1 rank:"), std::string::npos);
  EXPECT_EQ(occurrences(said, "dry run: nothing was written"), 1) << said;
  EXPECT_EQ(names(), before);
}

TEST_F(TrainerTest, ADryRunInTheFolderOfARunLeavesItAsItIs) {
  TrainOptions real = options("real", 2);
  ASSERT_EQ(run(real), 0);
  const auto look = [&] {
    std::map<std::string, std::pair<std::uintmax_t, fs::file_time_type>> seen;
    for (const auto& entry : fs::recursive_directory_iterator(real.output_dir)) {
      const std::uintmax_t size = entry.is_regular_file() ? entry.file_size() : 0;
      seen[entry.path().string()] = {size, entry.last_write_time()};
    }
    return seen;
  };
  const auto before = look();
  real.dry_run = true;
  real.train_steps = 4;
  ASSERT_EQ(run(real), 0);
  EXPECT_EQ(look(), before);
}

TEST_F(TrainerTest, AFinishedRunSaysThatNothingIsToBeTrained) {
  TrainOptions finished = options("finished", 2);
  ASSERT_EQ(run(finished), 0);
  finished.train_steps = 1;
  testing::internal::CaptureStdout();
  ASSERT_EQ(run(finished), 0);
  const std::string said = testing::internal::GetCapturedStdout();
  EXPECT_EQ(occurrences(said, "nothing to train: the checkpoint is of step 2, --train_steps is 1"),
            1)
      << said;
}

TEST_F(TrainerTest, ATornLineOfMetricsIsCutOff) {
  const TrainOptions next = options("next", 1);
  fs::create_directories(next.output_dir);
  std::ofstream(fs::path(next.output_dir) / "metrics.jsonl") << R"({"step": 7, "loss": 1.5})"
                                                             << "\n"
                                                             << R"({"step": 8, "lo)";
  ASSERT_EQ(run(next), 0);
  const auto lines = metrics(next);  // parses every line
  EXPECT_EQ(lines.size(), 1U);       // a fresh start begins behind step 0
  EXPECT_TRUE(lines.contains(1));
  std::ifstream replaced(fs::path(next.output_dir) / "metrics.replaced.jsonl");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(replaced), {}),
            "{\"step\": 7, \"loss\": 1.5}\n");
}

// Steps 4 and 5 were done without a checkpoint, row 2 is lost.
TEST_F(TrainerTest, AResumeCutsMetricsBackAndSaysWhichRowsAreMissing) {
  TrainOptions resumed = options("resumed", 5);
  resumed.save_steps = 3;
  resumed.save_async = false;  // durable before the fault
  core::arm_faults("step=5,point=step.post,action=throw");
  EXPECT_THROW(run(resumed), core::BugError);
  core::arm_faults("");
  const fs::path path = fs::path(resumed.output_dir) / "metrics.jsonl";
  std::vector<std::string> lines;
  {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("{\"step\": ")) lines.push_back(line);
    }
  }
  ASSERT_EQ(lines.size(), 5U);
  {
    std::ofstream file(path, std::ios::trunc);
    for (const int at : {0, 2, 3, 4}) file << lines[static_cast<std::size_t>(at)] << "\n";
  }
  testing::internal::CaptureStderr();
  ASSERT_EQ(run(resumed), 0);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(occurrences(said, "metrics.jsonl lacks the rows of steps 2, from before step 4"), 1)
      << said;
  std::ifstream file(path);
  std::vector<std::int64_t> steps;
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    if (!json.contains("start")) steps.push_back(json.at("step"));
  }
  EXPECT_EQ(steps, (std::vector<std::int64_t>{1, 3, 4, 5}));
}

TEST_F(TrainerTest, MetricsThatCannotBeWrittenAreSaidOnceAndStopNothing) {
  const TrainOptions full = options("full", 3);
  fs::create_directories(full.output_dir);
  fs::create_symlink("/dev/full", fs::path(full.output_dir) / "metrics.jsonl");
  testing::internal::CaptureStderr();
  EXPECT_EQ(run(full), 0);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(occurrences(said, "metrics.jsonl lacks lines from step 1 on"), 1) << said;
  EXPECT_EQ(occurrences(said, "No space left on device"), 1) << said;
}

TEST_F(TrainerTest, RanksWithDifferentLibrariesAreRefused) {
  const TrainOptions mixed = options("mixed", 1);
  const auto start = [&] {
    comm::run_ranks(2, [&](comm::Communicator& world) {
      RunContext context;
      context.arithmetic = {.libraries = world.rank() == 0 ? "G (avx2)" : "G (avx512)"};
      train(mixed, open_run_model(mixed), world, context);
    });
  };
  expect_error(core::ExitCode::kConfigError, "(rank 1: G (avx512); rank 0: G (avx2))", start);
}

TEST_F(TrainerTest, DumpedGradientsNameTheirStep) {
  TrainOptions dumped = options("dumped", 2);
  ASSERT_EQ(run(dumped), 0);
  dumped.train_steps = 4;
  dumped.dump_gradients = (folder() / "gradients.safetensors").string();
  testing::internal::CaptureStdout();
  ASSERT_EQ(run(dumped), 0);
  const std::string said = testing::internal::GetCapturedStdout();
  EXPECT_EQ(occurrences(said, "gradients of step 3 are in "), 1) << said;
}

// Four documents under another field, one per micro-batch: too little text for a single packed row,
// and their mean of means is the mean of what each gives alone.
TEST_F(TrainerTest, PackingTextFieldAndLossReductionReachTheRun) {
  const auto loss_of = [&](const std::string& name, const std::vector<std::string>& texts) {
    TrainOptions one = options(name, 1);
    one.data_path = {(folder() / (name + ".jsonl")).string()};
    std::ofstream file(one.data_path[0]);
    for (const std::string& text : texts) file << "{\"body\": \"" << text << "\"}\n";
    file.close();
    one.data_format = data::DataFormat::kJsonl;
    one.packing = data::Packing::kOneDocument;
    one.text_field = "body";
    one.loss_reduction = LossReduction::kMeanOfMeans;
    one.batch = {static_cast<std::int64_t>(texts.size()), 1, {}};
    EXPECT_EQ(run(one), 0);
    return metrics(one).at(1).loss;
  };
  const std::vector<std::string> texts = {"a", "bcd", "ef", "ghijkl"};
  double mean = 0.0;
  double by_token = 0.0;
  double tokens = 0.0;
  for (const std::string& text : texts) {
    const double loss = loss_of("alone_" + text, {text});
    const auto counted = static_cast<double>(text.size());  // EOS is the last label
    mean += loss / 4.0;
    by_token += loss * counted;
    tokens += counted;
  }
  ASSERT_GT(std::abs(mean - by_token / tokens), 1e-4);
  EXPECT_NEAR(loss_of("together", texts), mean, 1e-6);
}

}  // namespace
}  // namespace fm::engine
