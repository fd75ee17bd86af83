#include "trainer_case.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/fault.h"

namespace fm::engine {

namespace fs = std::filesystem;

void TrainerCase::SetUp() {
  const auto* const info = testing::UnitTest::GetInstance()->current_test_info();
  std::string name = info->name();
  for (char& letter : name) {
    if (letter == '/') letter = '_';
  }
  folder_ = fs::path(testing::TempDir()) / ("fm_trainer_" + name);
  fs::remove_all(folder_);
  fs::create_directories(folder_);
}

void TrainerCase::TearDown() {
  core::arm_faults("");
  fs::remove_all(folder_);
}

TrainOptions TrainerCase::options(const std::string& output, std::int64_t steps) const {
  TrainOptions out = small_options(folder_.string(), true);
  out.output_dir = (folder_ / output).string();
  out.sum_order = core::SumOrder::kCanonical;
  out.train_steps = steps;
  out.log_steps = 0;
  return out;
}

int TrainerCase::run(const TrainOptions& options, int ranks, const RunContext& context) {
  int code = -1;
  comm::run_ranks(
      ranks,
      [&](comm::Communicator& world) {
        RunContext mine_alone = context;
        const bool has_one = context.computes.device != nullptr;
        const auto device = has_one ? nullptr : device_of(options, world.rank());
        if (device != nullptr) mine_alone.computes.device = device.get();
        const int mine = train(options, open_run_model(options), world, mine_alone);
        if (world.rank() == 0) code = mine;
      },
      60'000, options.shared_memory ? comm::Between::kSharedMemory : comm::Between::kMessages);
  return code;
}

TrainOptions TrainerCase::run_in_parts(const TrainOptions& whole, comm::Between last) const {
  TrainOptions part = whole;
  part.output_dir = (folder_ / "part").string();
  part.train_steps = 2;
  part.zero_stage = 3;
  EXPECT_EQ(run(part, 2), 0);
  part.train_steps = 4;
  part.zero_stage = 1;
  part.pipe_parallel_size = 2;
  part.resume = checkpoint::Resume::kMust;
  EXPECT_EQ(run(part, 4), 0);
  part.train_steps = 6;
  part.zero_stage = 2;
  part.pipe_parallel_size = 1;
  part.shared_memory = last == comm::Between::kSharedMemory;
  EXPECT_EQ(run(part, 4), 0);
  return part;
}

std::map<int, MetricsLine> TrainerCase::metrics(const TrainOptions& options) {
  std::map<int, MetricsLine> out;
  std::ifstream file(fs::path(options.output_dir) / "metrics.jsonl");
  for (std::string text; std::getline(file, text);) {
    const auto json = nlohmann::json::parse(text);
    if (json.contains("start")) continue;
    MetricsLine& line = out[json.at("step")];
    line = {.loss = json.at("loss").is_null() ? std::nan("") : json.at("loss").get<double>(),
            .lr = json.value("lr", std::nan("")),
            .grad_norm = std::nullopt,
            .skipped = json.value("skipped", false),
            .loss_scale = json.value("loss_scale", std::nan("")),
            .eval_loss = json.value("eval_loss", std::nan("")),
            .perplexity = json.value("perplexity", std::nan("")),
            .step_time_ms = 1e3 * json.value("step_time", std::nan("")),
            .phases_ms = 0.0};
    const auto phases = json.value("phases", std::map<std::string, double>());
    for (const auto& [phase, ms] : phases) line.phases_ms += ms;
    const auto norm = json.find("grad_norm");
    if (norm != json.end() && norm->is_number()) line.grad_norm = norm->get<double>();
  }
  return out;
}

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

int occurrences(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

void expect_error(core::ExitCode code, const std::string& part, const std::function<void()>& act) {
  try {
    act();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

}  // namespace fm::engine
