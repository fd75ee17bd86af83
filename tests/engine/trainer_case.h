// What tests of whole runs share: a folder of its own, small options, and what a run leaves.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "comm/meet/world.h"
#include "core/check.h"
#include "engine/run/trainer.h"
#include "small_run.h"

namespace fm::engine {

// One line of metrics.jsonl; what is absent is NaN.
struct MetricsLine {
  double loss = 0.0;
  double lr = 0.0;
  std::optional<double> grad_norm;  // absent: null, because it was not finite
  bool skipped = false;
  double loss_scale = 0.0;
  double eval_loss = 0.0;
  double perplexity = 0.0;
  double step_time_ms = 0.0;
  double phases_ms = 0.0;  // sum
};

class TrainerCase : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  const std::filesystem::path& folder() const { return folder_; }
  TrainOptions options(const std::string& output, std::int64_t steps) const;
  // Ranks as threads; returns rank 0's exit code.
  static int run(const TrainOptions& options, int ranks = 1, const RunContext& context = {});
  // The run of `whole` in the folder "part": 6 steps in three starts, each in another layout, the
  // last one between `last`. Returns the options of the last.
  TrainOptions run_in_parts(const TrainOptions& whole, comm::Between last) const;
  // By step, the last line of a step wins; every line is parsed.
  static std::map<int, MetricsLine> metrics(const TrainOptions& options);

 private:
  std::filesystem::path folder_;
};

std::string content(const std::filesystem::path& path);
int occurrences(const std::string& text, const std::string& part);
// `act` must throw a core::Error with this code whose text holds `part`.
void expect_error(core::ExitCode code, const std::string& part, const std::function<void()>& act);

}  // namespace fm::engine
