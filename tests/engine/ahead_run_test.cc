// Whole runs whose steps end before their norm is known write what other runs write.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/fault.h"
#include "core/text.h"
#include "trainer_case.h"

namespace fm::engine {
namespace {

class AheadRun : public TrainerCase {
 protected:
  TrainOptions piped(const std::string& output, std::int64_t steps) const {
    TrainOptions out = options(output, steps);
    out.pipe_parallel_size = 2;
    out.gradient_clipping = 0.0;
    return out;
  }
  // From its second step on; else as `meeting`.
  TrainOptions ahead(const TrainOptions& meeting) const {
    TrainOptions out = meeting;
    out.post_validation = true;
    out.unclipped_before_ahead = 1;
    out.output_dir += "_ahead";
    return out;
  }
};

using Rows = std::vector<nlohmann::json>;

// Rows of metrics.jsonl without what is measured, and what became of speculative steps.
struct Written {
  Rows rows;
  std::string ahead;  // a letter per step: - met, k kept, r redone
};

Written written_by(const TrainOptions& options) {
  Written out;
  std::ifstream file(std::filesystem::path(options.output_dir) / "metrics.jsonl");
  for (std::string text; std::getline(file, text);) {
    nlohmann::json row = nlohmann::json::parse(text);
    if (row.contains("start")) continue;
    out.ahead += row.value("ahead", "-")[0];
    for (const char* measured : {"time", "tokens_per_second", "gflops", "step_time", "phases",
                                 "mem_peak_bytes", "minor_faults", "save_stall_ms", "ahead"}) {
      row.erase(measured);
    }
    out.rows.push_back(row);
  }
  return out;
}

std::string state_of(const TrainOptions& options) {
  std::string all;
  const std::filesystem::path hf = std::filesystem::path(options.output_dir) / "hf";
  for (const auto& entry : std::filesystem::directory_iterator(hf)) {
    if (entry.path().extension() == ".safetensors") all += content(entry.path());
  }
  return all;
}

// Saves after steps 4 and 8, evaluations after 3, 6 and 9: those and the last one meet, and so does
// the first, behind which no clean step stands.
TEST_F(AheadRun, WritesTheRowsOfARunThatMeets) {
  TrainOptions meeting = piped("meeting", 10);
  meeting.save_steps = 4;
  meeting.eval_steps = 3;
  meeting.eval_data_path = meeting.data_path;
  ASSERT_EQ(run(meeting, 4), 0);
  const TrainOptions other = ahead(meeting);
  ASSERT_EQ(run(other, 4), 0);
  EXPECT_EQ(written_by(other).rows, written_by(meeting).rows);
  EXPECT_EQ(written_by(meeting).ahead, "----------");
  EXPECT_EQ(written_by(other).ahead, "-k--k-k---");
  EXPECT_FALSE(state_of(meeting).empty());
  EXPECT_EQ(state_of(other), state_of(meeting));
}

// The clipped step is redone, and those behind it meet until enough of them were not clipped.
TEST_F(AheadRun, MeetsAgainBehindAClippedStep) {
  TrainOptions meeting = piped("meeting", 12);
  ASSERT_EQ(run(meeting, 2), 0);
  std::vector<double> norms;
  for (const auto& [step, line] : metrics(meeting)) norms.push_back(line.grad_norm.value());
  meeting.gradient_clipping = 0.999 * *std::max_element(norms.begin() + 2, norms.end() - 1);
  meeting.output_dir += "_clipped";
  ASSERT_EQ(run(meeting, 2), 0);
  const TrainOptions other = ahead(meeting);
  testing::internal::CaptureStdout();
  ASSERT_EQ(run(other, 2), 0);
  const std::string said = testing::internal::GetCapturedStdout();
  EXPECT_EQ(written_by(other).rows, written_by(meeting).rows);
  EXPECT_EQ(state_of(other), state_of(meeting));
  std::string expected;
  int clean = 0;
  for (const auto& [step, line] : metrics(meeting)) {
    const bool clipped = meeting.gradient_clipping < line.grad_norm.value() + 1e-6;
    expected += clean == 0 || step == 12 ? '-' : (clipped ? 'r' : 'k');
    clean = clipped ? 0 : clean + 1;
  }
  EXPECT_EQ(written_by(other).ahead, expected);
  EXPECT_NE(expected.find('r'), std::string::npos) << expected;
  EXPECT_NE(expected.find('k'), std::string::npos) << expected;
  const std::string summary =
      core::concat(std::ranges::count(expected, 'r') + std::ranges::count(expected, 'k'),
                   " steps ended before the norm was known, ", std::ranges::count(expected, 'r'),
                   " of them done again");
  EXPECT_NE(said.find(summary), std::string::npos) << said;
  EXPECT_NE(said.find("  ahead      steps end before the norm is known after 1 in a row"),
            std::string::npos);
}

// Lines of stderr that explain a skipped step.
std::vector<std::string> explained(const TrainOptions& options, int (*run)(const TrainOptions&)) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(run(options), 0);
  std::vector<std::string> out;
  for (const std::string& line : core::split(testing::internal::GetCapturedStderr(), '\n')) {
    if (line.find(" skipped, weights unchanged: ") != std::string::npos) out.push_back(line);
  }
  return out;
}

// A skip is explained as in a run that meets: with the rows of its own step.
TEST_F(AheadRun, ExplainsASkippedStep) {
  const auto poisoned = [](const TrainOptions& options) {
    core::arm_faults("point=bwd.layer,step=5,action=nan,rank=1");
    const int code = run(options, 2);
    core::arm_faults("");
    return code;
  };
  const TrainOptions meeting = piped("meeting", 8);
  const TrainOptions other = ahead(meeting);
  const std::vector<std::string> said = explained(meeting, poisoned);
  ASSERT_EQ(said.size(), 1);
  EXPECT_NE(said[0].find("first non-finite gradient: "), std::string::npos) << said[0];
  EXPECT_EQ(explained(other, poisoned), said);
  EXPECT_EQ(written_by(other).rows, written_by(meeting).rows);
  EXPECT_EQ(written_by(other).ahead, "-kkkr-k-");
  EXPECT_EQ(state_of(other), state_of(meeting));
}

// The loss scale grows until gradients overflow, shrinks, and grows again.
TEST_F(AheadRun, TheLossScaleGoesTheSameWay) {
  TrainOptions meeting = piped("meeting", 24);
  meeting.element = core::DType::kF16;
  meeting.loss_scale = {.first = 0x1p20, .window = 2, .hysteresis = 1};
  const auto on_two_ranks = [](const TrainOptions& options) { return run(options, 2); };
  const TrainOptions other = ahead(meeting);
  const std::vector<std::string> said = explained(meeting, on_two_ranks);
  EXPECT_GT(said.size(), 1);
  EXPECT_EQ(explained(other, on_two_ranks), said);
  EXPECT_EQ(written_by(other).rows, written_by(meeting).rows);
  EXPECT_EQ(state_of(other), state_of(meeting));
  EXPECT_NE(written_by(other).ahead.find('r'), std::string::npos) << written_by(other).ahead;
  EXPECT_NE(written_by(other).ahead.find('k'), std::string::npos) << written_by(other).ahead;
}

TEST_F(AheadRun, ResumesWithTheSameBits) {
  const TrainOptions meeting = piped("meeting", 12);
  ASSERT_EQ(run(meeting, 2), 0);
  TrainOptions part = ahead(meeting);
  for (const std::int64_t steps : {5, 12}) {
    part.train_steps = steps;
    ASSERT_EQ(run(part, 2), 0);
  }
  EXPECT_EQ(written_by(part).rows, written_by(meeting).rows);
  EXPECT_EQ(written_by(part).ahead, "-kkk--kkkkk-");
  EXPECT_EQ(state_of(part), state_of(meeting));
}

TEST_F(AheadRun, EndsAtTooManySkipsInARow) {
  core::arm_faults("point=bwd.layer,action=nan,rank=0");
  TrainOptions poisoned = ahead(piped("poisoned", 30));
  poisoned.unclipped_before_ahead = 0;
  expect_error(core::ExitCode::kNumericLimit, "10 steps skipped in a row",
               [&] { run(poisoned, 2); });
}

TEST_F(AheadRun, OnePipeRankHasNothingToWaitFor) {
  TrainOptions alone = ahead(options("alone", 3));
  testing::internal::CaptureStdout();
  ASSERT_EQ(run(alone), 0);
  const std::string said = testing::internal::GetCapturedStdout();
  EXPECT_NE(said.find("--post_validation has no effect: there is one pipe rank"),
            std::string::npos);
  EXPECT_EQ(written_by(alone).ahead, "---");
}

}  // namespace
}  // namespace fm::engine
