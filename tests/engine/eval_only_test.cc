// A start that evaluates and trains nothing.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "trainer_case.h"

namespace fm::engine {
namespace {

namespace fs = std::filesystem;

class EvalOnly : public TrainerCase {
 protected:
  // The loss of the last line of metrics.jsonl, which must be an evaluation of `step`.
  static double evaluated(const TrainOptions& options, int step) {
    std::ifstream file(options.output_dir + "/metrics.jsonl");
    std::string last;
    for (std::string line; std::getline(file, line);) last = line;
    const auto json = nlohmann::json::parse(last);
    EXPECT_TRUE(json.contains("evaluation")) << last;
    EXPECT_EQ(json.at("evaluation").at("step"), step);
    return json.at("evaluation").at("eval_loss");
  }
  static std::set<std::string> names_in(const fs::path& folder) {
    std::set<std::string> names;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      names.insert(entry.path().filename());
    }
    return names;
  }
};

// What the run itself found behind its last step, from other ranks and of another layout.
TEST_F(EvalOnly, FindsTheLossOfTheLastCheckpointInAnyLayout) {
  TrainOptions whole = options("out", 4);
  whole.eval_data_path = whole.data_path;
  whole.eval_batches = 2;
  ASSERT_EQ(run(whole, 2), 0);
  const double expected = metrics(whole).at(4).eval_loss;
  const std::set<std::string> before = names_in(whole.output_dir);
  TrainOptions alone = whole;
  alone.eval_only = true;
  for (const int layout : {0, 1, 2}) {
    alone.zero_stage = layout == 1 ? 3 : 0;
    alone.pipe_parallel_size = layout == 2 ? 2 : 1;
    testing::internal::CaptureStdout();
    ASSERT_EQ(run(alone, layout == 0 ? 1 : 2), 0);
    const std::string said = testing::internal::GetCapturedStdout();
    EXPECT_DOUBLE_EQ(evaluated(alone, 4), expected) << layout;
    EXPECT_NE(said.find("evaluating the checkpoint of step 4"), std::string::npos) << said;
    EXPECT_NE(said.find("evaluation of step 4: loss "), std::string::npos) << said;
    EXPECT_EQ(said.find("saved "), std::string::npos) << said;
  }
  EXPECT_EQ(names_in(whole.output_dir), before);
  whole.train_steps = 6;  // and the run goes on as if nothing had been
  ASSERT_EQ(run(whole, 2), 0);
}

// Other data than the run's, another optimizer, and fewer rows than a step of training takes.
TEST_F(EvalOnly, OfAGivenModelNeedsNoCheckpoint) {
  TrainOptions first = options("first", 2);
  first.eval_data_path = first.data_path;
  first.eval_batches = 1;
  ASSERT_EQ(run(first), 0);
  TrainOptions other = options("other", 2);
  other.model_config.clear();
  other.init_ckpt = first.output_dir + "/hf";
  other.eval_data_path = first.data_path;
  other.eval_batches = 1;
  other.eval_only = true;
  ASSERT_EQ(run(other), 0);
  EXPECT_NEAR(evaluated(other, 0), metrics(first).at(2).eval_loss, 1e-7);
  EXPECT_EQ(names_in(other.output_dir).count("hf"), 0U);
  const double expected = metrics(first).at(2).eval_loss;
  TrainOptions again = first;  // of its own folder: nothing is exported there
  again.eval_only = true;
  again.optimizer.rule = &optim::kLion;
  again.seed = 5;
  ASSERT_EQ(run(again), 0);
  EXPECT_DOUBLE_EQ(evaluated(again, 2), expected);
}

}  // namespace
}  // namespace fm::engine
