// Evaluations decide which model is exported and when a run ends; epochs are counted and named.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <set>
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
  // What a run says that goes on from step 8 to 12 when its best checkpoint was spoilt; it exports
  // the last model.
  std::string said_without_best(const std::string& output,
                                const std::function<void(const fs::path&)>& spoil) {
    TrainOptions spoilt = overfitting(output, 8);
    spoilt.load_best_model = true;
    EXPECT_EQ(run(spoilt, 2), 0);
    const int best = best_of(spoilt);
    EXPECT_LT(best, 8);
    spoil(spoilt.output_dir + "/global_step" + std::to_string(best));
    spoilt.train_steps = 12;
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    EXPECT_EQ(run(spoilt, 2), 0);
    const std::string said =
        testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("the last model is exported"), std::string::npos) << said;
    const TrainOptions plain = overfitting("plain", 12);
    EXPECT_EQ(run(plain, 2), 0);
    EXPECT_EQ(exported(plain), exported(spoilt));
    return said;
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
  const std::string said =
      said_without_best("moved", [](const fs::path& best) { fs::remove_all(best); });
  EXPECT_NE(said.find("its checkpoint is not in "), std::string::npos) << said;
}

// One bit of its weights: the run is not stopped at each start.
TEST_F(BestModel, ThatIsDamagedIsNoEnd) {
  const std::string said = said_without_best("broken", [](const fs::path& best) {
    for (const auto& entry : fs::directory_iterator(best)) {
      if (entry.path().extension() != ".safetensors") continue;
      std::fstream bytes(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      bytes.seekg(-1, std::ios::end);
      const char old = static_cast<char>(bytes.get());
      bytes.seekp(-1, std::ios::end);
      bytes.put(static_cast<char>(old ^ 1));
    }
  });
  EXPECT_NE(said.find("its checkpoint cannot be loaded ("), std::string::npos) << said;
}

// --save_strategy best: it is saved and stays, and the last model is exported.
TEST_F(BestModel, MayBeSavedWithoutBeingExported) {
  TrainOptions saved = overfitting("saved", 12);
  saved.save_best = true;
  saved.keep_last = 1;
  ASSERT_EQ(run(saved, 2), 0);
  std::set<std::string> there;
  for (const auto& entry : fs::directory_iterator(saved.output_dir)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("global_step")) there.insert(name);
  }
  EXPECT_EQ(there, (std::set<std::string>{"global_step12",
                                          "global_step" + std::to_string(best_of(saved))}));
  const TrainOptions plain = overfitting("plain", 12);
  ASSERT_EQ(run(plain, 2), 0);
  EXPECT_EQ(exported(plain), exported(saved));
}

// 8,000 rows, stopped behind 4,000 of them, go on with steps of another size.
TEST(Epochs, AreNotWholeWhereStepsHadAnotherBatch) {
  const Epochs doubled{.samples = 8000, .train_batch = 80, .steps = 100};
  EXPECT_EQ(doubled.other_end(1, 100, 4000, 100),
            "this run ends after 0.5 epochs, not 1: its steps had another batch before; "
            "--max_steps 150 ends it where 1 have passed");
  const Epochs halved{.samples = 8000, .train_batch = 40, .steps = 200};
  EXPECT_EQ(halved.other_end(1, 50, 4000, 200),
            "this run ends after 1.25 epochs, not 1: its steps had another batch before; "
            "--max_steps 150 ends it where 1 have passed");
  const Epochs uneven{.samples = 41, .train_batch = 8, .steps = 6};
  EXPECT_EQ(uneven.other_end(3, 5, 40, 18), "");
  EXPECT_EQ(uneven.other_end(0.5, 1, 8, 3), "");
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

// trainer.py's _determine_best_metric and EarlyStoppingCallback.check_metric_value.
TEST(BestEvaluation, HasTheLeastLossAndTheThresholdIsForThePatience) {
  BestEvaluation best;
  const auto see = [&](std::int64_t step, double loss) {
    best = after_evaluation(best, step, loss, 0.1);
    return best.step;
  };
  EXPECT_EQ(see(1, NAN), -1);
  EXPECT_EQ(see(2, 5.0), 2);
  EXPECT_EQ(best.worse, 0);
  EXPECT_EQ(see(3, 4.95), 3);
  EXPECT_EQ(see(4, INFINITY), 3);
  EXPECT_EQ(see(5, 4.9), 5) << "less than the best, by less than the threshold";
  EXPECT_EQ(best.worse, 3);
  EXPECT_EQ(see(6, 4.5), 6);
  EXPECT_EQ(best.worse, 0);
  EXPECT_EQ(best.loss, 4.5);
  EXPECT_EQ(see(7, 4.6), 6);
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
