// Steps of which no token is trained: they have no loss, and that is said.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "trainer_case.h"

namespace fm::engine {
namespace {

namespace fs = std::filesystem;

class UntrainedSteps : public TrainerCase {
 protected:
  // Eight documents of 6 ids, of which half train nothing: one to a step.
  TrainOptions half(const std::string& output, std::int64_t steps) const {
    TrainOptions out = options(output, steps);
    const fs::path path = folder() / "half.jsonl";
    std::ofstream file(path);
    for (int at = 0; at < 8; ++at) {
      const int first = 10 * at + 1;
      file << "{\"input_ids\": [" << first;
      for (int more = 1; more < 6; ++more) file << ", " << first + more;
      file << "]" << (at % 2 == 0 ? "" : R"(, "labels": [-100, -100, -100, -100, -100, -100])")
           << "}\n";
    }
    out.data_path = {path.string()};
    out.data_format = data::DataFormat::kJsonl;
    out.packing = data::Packing::kOneDocument;
    out.batch = {1, 1, {}};
    out.log_steps = 1;
    return out;
  }
  static std::string said_by(const TrainOptions& options, int ranks = 1) {
    testing::internal::CaptureStdout();
    const int code = run(options, ranks);
    std::string said = testing::internal::GetCapturedStdout();
    EXPECT_EQ(code, 0) << said;
    return said;
  }
  // 'x' for a step with a loss, '-' for one without.
  static std::string picture(const TrainOptions& options) {
    std::string out;
    for (const auto& [step, line] : metrics(options)) out += std::isnan(line.loss) ? '-' : 'x';
    return out;
  }
};

TEST_F(UntrainedSteps, HaveNoLossAnywhere) {
  TrainOptions options = half("out", 8);
  options.monitors.csv = {(folder() / "csv").string()};
  const std::string said = said_by(options);
  EXPECT_EQ(occurrences(said, "4 of 8 rows train nothing: no label in them counts"), 1) << said;
  const std::string steps = picture(options);
  EXPECT_EQ(std::ranges::count(steps, '-'), 4) << steps;
  EXPECT_EQ(occurrences(said, "  no loss"), 4) << said;
  EXPECT_EQ(occurrences(said, "loss 0.0000"), 0) << said;
  EXPECT_EQ(occurrences(said, "no labels  4 steps trained nothing and had no loss"), 1) << said;
  const std::string csv = content(folder() / "csv" / "Train_Samples_train_loss.csv");
  EXPECT_EQ(occurrences(csv, "\n"), 1 + 4) << csv;
  for (const auto& [step, line] : metrics(options)) {
    EXPECT_TRUE(std::isnan(line.loss) || line.loss > 1.0) << step;
    EXPECT_EQ(line.grad_norm == 0.0, std::isnan(line.loss)) << step;
    EXPECT_FALSE(line.skipped) << step;
  }
}

// Even documents (from 1) are those without labels.
TEST_F(UntrainedSteps, AreSaidWithTheirRows) {
  const TrainOptions options = half("out", 8);
  const std::string said = said_by(options);
  std::set<std::string> named;
  for (std::size_t at = 0; (at = said.find("trains nothing: none of its rows", at)) != said.npos;) {
    const std::size_t open = said.find('(', at);
    at = said.find(')', open);
    named.insert(said.substr(open + 1, at - open - 1));
  }
  EXPECT_EQ(named, (std::set<std::string>{"document 2", "document 4", "document 6", "document 8"}));
}

// Of many such steps some are told, and all are counted in the end.
TEST_F(UntrainedSteps, AreToldAFewTimes) {
  const TrainOptions options = half("out", 32);
  const std::string said = said_by(options);
  EXPECT_EQ(occurrences(said, "trains nothing: none of its rows"), 5) << said;
  EXPECT_EQ(occurrences(said, "; further such steps have no such line"), 1);
}

// The head alone counts labels; in the last layout a step has two rows.
TEST_F(UntrainedSteps, AreTheSameInEveryLayout) {
  const TrainOptions alone = half("alone", 8);
  said_by(alone);
  for (const int ahead : {0, 1}) {
    TrainOptions pipe = half(ahead == 0 ? "pipe" : "ahead", 8);
    pipe.pipe_parallel_size = 2;
    pipe.post_validation = ahead == 1;
    pipe.unclipped_before_ahead = 1;
    pipe.gradient_clipping = alone.gradient_clipping;
    said_by(pipe, 2);
    EXPECT_EQ(picture(pipe), picture(alone));
    for (const auto& [step, line] : metrics(alone)) {
      const double found = metrics(pipe).at(step).loss;
      EXPECT_TRUE(found == line.loss || (std::isnan(found) && std::isnan(line.loss))) << step;
    }
  }
  TrainOptions data = half("data", 4);
  data.batch = {2, 1, {}};
  data.zero_stage = 2;
  said_by(data, 2);
  const std::string all = picture(alone);
  std::string pairs;
  for (std::size_t at = 0; at < 8; at += 2) pairs += all.substr(at, 2) == "--" ? '-' : 'x';
  EXPECT_EQ(picture(data), pairs);
}

TEST_F(UntrainedSteps, LeaveNoGaugeOfALoss) {
  const TrainOptions whole = half("whole", 8);
  said_by(whole);
  const std::string steps = picture(whole);
  for (const char kind : {'-', 'x'}) {
    TrainOptions last = half(std::string("to_") + kind, static_cast<int>(steps.find(kind)) + 1);
    last.monitors.prometheus_file = (folder() / "run.prom").string();
    said_by(last);
    const std::string text = content(last.monitors.prometheus_file);
    EXPECT_EQ(occurrences(text, "fmengine_loss{"), kind == 'x' ? 1 : 0) << text;
    EXPECT_EQ(occurrences(text, "fmengine_grad_norm{"), 1);
  }
}

TEST_F(UntrainedSteps, OfAllDataAreRefused) {
  TrainOptions options = half("out", 2);
  std::ofstream(options.data_path[0]) << R"({"input_ids": [1, 2, 3], "labels": [-100, -100, -100]})"
                                      << "\n";
  expect_error(core::ExitCode::kDataError, "training data must have tokens that are trained",
               [&] { run(options); });
}

// Of 64 rows one is evaluated, and none but the last has a label: that is no loss of 0.
TEST_F(UntrainedSteps, OfAWholeEvaluationAreRefused) {
  TrainOptions options = half("out", 4);
  options.eval_data_path = {(folder() / "eval.jsonl").string()};
  std::ofstream file(options.eval_data_path[0]);
  for (int at = 0; at < 63; ++at)
    file << R"({"input_ids": [1, 2], "labels": [-100, -100]})"
         << "\n";
  file << R"({"input_ids": [1, 2]})"
       << "\n";
  file.close();
  options.eval_steps = 2;
  options.eval_batches = 1;
  expect_error(core::ExitCode::kDataError, "evaluation data must have a label that counts",
               [&] { run(options); });
}

}  // namespace
}  // namespace fm::engine
