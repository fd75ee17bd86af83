// Evaluations decide which model is exported and when a run ends; epochs are counted and named.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <sstream>

#include "engine/run/run_data.h"
#include "engine/state/progress_state.h"
#include "trainer_case.h"

namespace fm::engine {
namespace {

namespace fs = std::filesystem;

class BestModel : public TrainerCase {
 protected:
  // Noise cannot be learnt: after a few steps the losses of other noise grow.
  TrainOptions overfitting(const std::string& output, std::int64_t steps) const {
    TrainOptions out = options(output, steps);
    out.eval_data_path = {(folder() / "other.bin").string()};
    std::mt19937 random(99);
    std::vector<std::int32_t> ids(17 * 8);
    for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random() % 777);
    std::ofstream(out.eval_data_path[0], std::ios::binary)
        .write(reinterpret_cast<const char*>(ids.data()),
               static_cast<std::streamsize>(ids.size() * sizeof(std::int32_t)));
    out.eval_steps = 2;
    out.save_steps = 0;
    return out;
  }
  static std::string exported(const TrainOptions& options) {
    std::ifstream file(options.output_dir + "/hf/model.safetensors", std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // The step of the least evaluation loss.
  static int best_of(const TrainOptions& options) {
    int best = 0;
    double least = INFINITY;
    for (const auto& [step, line] : metrics(options)) {
      if (!(line.eval_loss < least)) continue;
      least = line.eval_loss;
      best = step;
    }
    return best;
  }
};

TEST_F(BestModel, IsExportedInTheEnd) {
  TrainOptions whole = overfitting("whole", 12);
  whole.load_best_model = true;
  whole.keep_last = 1;
  for (const std::int64_t steps : {8, 12}) {  // the second start remembers
    whole.train_steps = steps;
    ASSERT_EQ(run(whole, 2), 0);
  }
  const int best = best_of(whole);
  ASSERT_GT(best, 0);
  ASSERT_LT(best, 8);
  EXPECT_TRUE(fs::exists(whole.output_dir + "/global_step" + std::to_string(best)));
  EXPECT_TRUE(fs::exists(whole.output_dir + "/global_step12"));
  const TrainOptions shorter = overfitting("shorter", best);
  ASSERT_EQ(run(shorter, 1), 0);
  EXPECT_EQ(exported(whole), exported(shorter));
  const TrainOptions plain = overfitting("plain", 12);
  ASSERT_EQ(run(plain, 2), 0);
  EXPECT_NE(exported(plain), exported(whole));
}

TEST_F(BestModel, ThatIsNotThereAnyMoreIsNoEnd) {
  TrainOptions moved = overfitting("moved", 8);
  moved.load_best_model = true;
  ASSERT_EQ(run(moved, 2), 0);
  const int best = best_of(moved);
  ASSERT_LT(best, 8);
  fs::remove_all(moved.output_dir + "/global_step" + std::to_string(best));
  moved.train_steps = 12;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  ASSERT_EQ(run(moved, 2), 0);
  const std::string said =
      testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("the last model is exported"), std::string::npos) << said;
  const TrainOptions plain = overfitting("plain", 12);
  ASSERT_EQ(run(plain, 2), 0);
  EXPECT_EQ(exported(plain), exported(moved));
}

TEST_F(BestModel, NoBetterEvaluationEndsTheRun) {
  TrainOptions patient = overfitting("patient", 40);
  patient.early_stopping_patience = 3;
  testing::internal::CaptureStdout();
  ASSERT_EQ(run(patient, 2), 0);
  const std::string said = testing::internal::GetCapturedStdout();
  const int best = best_of(patient);
  EXPECT_EQ(metrics(patient).rbegin()->first, best + 3 * 2);
  EXPECT_NE(said.find("stopped early: no better evaluation than that of step " +
                      std::to_string(best) + " (loss "),
            std::string::npos)
      << said;
  EXPECT_TRUE(fs::exists(patient.output_dir + "/hf"));
  ASSERT_EQ(run(patient, 2), 0);  // and stays so
  EXPECT_EQ(metrics(patient).rbegin()->first, best + 3 * 2);
}

TEST(BestEvaluation, IsBetterByMoreThanTheThreshold) {
  BestEvaluation best;
  const auto see = [&](std::int64_t step, double loss) {
    best = after_evaluation(best, step, loss, 0.1);
    return best.step;
  };
  EXPECT_EQ(see(1, NAN), -1);
  EXPECT_EQ(see(2, 5.0), 2);
  EXPECT_EQ(see(3, 4.95), 2);
  EXPECT_EQ(see(4, INFINITY), 2);
  EXPECT_EQ(best.worse, 2);
  EXPECT_EQ(see(5, 4.5), 5);
  EXPECT_EQ(best.worse, 0);
  EXPECT_EQ(best.loss, 4.5);
}

// transformers: ceil(ceil(samples / (micro-batch x data ranks)) / accumulation).
TEST(Epochs, HaveTheStepsOfTheTrainer) {
  const auto steps = [](std::int64_t samples, std::int64_t micro, std::int64_t times, int dp_size) {
    return steps_of_epoch(
        samples,
        {.train_batch = micro * times * dp_size, .micro_batch = micro, .accumulation = times});
  };
  EXPECT_EQ(steps(40, 1, 3, 2), 7);
  EXPECT_EQ(steps(41, 2, 4, 4), 2);
  EXPECT_EQ(steps(64, 2, 4, 4), 2);
  EXPECT_EQ(steps(65, 2, 4, 4), 3);
  EXPECT_EQ(steps(1, 8, 8, 1), 1);
}

// 40 windows, steps of 4.
TEST_F(BestModel, EpochsAreCountedAndTheirEndsSaid) {
  const TrainOptions two = options("two", 21);
  EXPECT_EQ(count_steps_of_epoch(two, 777, 2, *comm::make_solo(), nullptr), 10);
  testing::internal::CaptureStdout();
  ASSERT_EQ(run(two, 2), 0);
  const std::string wrapped = testing::internal::GetCapturedStdout();
  const std::string said = std::regex_replace(wrapped, std::regex("\\n +"), " ");
  EXPECT_NE(said.find("; 1 epoch = 10 steps, this run 2.1 epochs"), std::string::npos) << said;
  EXPECT_EQ(occurrences(said, " ended in step "), 0);  // of short epochs
  std::ifstream file(two.output_dir + "/metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json.contains("start")) continue;
    EXPECT_EQ(json.at("samples"), 4 * json.at("step").get<int>());
    EXPECT_NEAR(json.at("epoch").get<double>(), json.at("step").get<double>() / 10.0, 1e-8);
  }
}

}  // namespace
}  // namespace fm::engine
