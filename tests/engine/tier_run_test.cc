// Runs whose state sleeps on this machine's disk: what they say, and what they need.
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/plan/run_model.h"
#include "engine/plan/tier_forecast.h"
#include "trainer_case.h"

namespace fm::engine {
namespace {

class TierRuns : public TrainerCase {
 protected:
  TrainOptions sleeping(const std::string& output) const {
    TrainOptions options = this->options(output, 3);
    options.zero_stage = 2;
    options.offload.optimizer = core::Tier::kNvme;
    options.offload.optimizer_paths = {(folder() / "drive").string()};
    return options;
  }
  static std::vector<nlohmann::json> lines(const TrainOptions& options) {
    std::vector<nlohmann::json> found;
    std::istringstream text(content(std::filesystem::path(options.output_dir) / "metrics.jsonl"));
    for (std::string line; std::getline(text, line);) found.push_back(nlohmann::json::parse(line));
    return found;
  }
};

TEST_F(TierRuns, MoveWhatTheForecastSays) {
  const TrainOptions options = sleeping("run");
  run(options, 2);
  const model::OpenedModel opened = open_run_model(options);
  const RunPlan plan = make_run_plan(options, opened.model, {2, core::ParamSharing::kOneHost});
  const TierForecast forecast = tier_forecast(plan, 0);
  EXPECT_GT(forecast.read.count(), 0);
  int steps = 0;
  for (const nlohmann::json& line : lines(options)) {
    if (line.contains("start")) {
      EXPECT_NE(line.dump().find("optimizer on NVMe"), std::string::npos);
      EXPECT_NE(line.dump().find("of each rank by "), std::string::npos);
    }
    if (!line.contains("step")) continue;
    EXPECT_EQ(line["nvme_read_bytes"], forecast.read.count()) << line["step"];
    EXPECT_EQ(line["nvme_written_bytes"], forecast.written.count()) << line["step"];
    EXPECT_GE(line["nvme_wait"].get<double>(), 0.0);
    ++steps;
  }
  EXPECT_EQ(steps, 3);
  EXPECT_TRUE(std::filesystem::is_empty(folder() / "drive"));
}

TEST_F(TierRuns, ADriveThatCannotBeWrittenToIsNamedBeforeTheStart) {
  TrainOptions options = sleeping("run");
  options.offload.optimizer_paths = {"/proc/none"};
  expect_error(core::ExitCode::kStorageFailed, "name another folder (/proc/none",
               [&] { run(options, 2); });
}

}  // namespace
}  // namespace fm::engine
