// FMEngine's own llama.json, unmodified and so in bf16: the same losses and gradient norms, digit
// for digit, however the ranks were started, and in canonical order on half as many ranks with
// twice the accumulation.
#include "tests/system/small_job.h"
#include "tests/system/system_case.h"
#include "tests/system/text_files.h"

namespace fm::system {
namespace {

constexpr int kSteps = 8;

class SameLosses : public SystemCase {
 protected:
  StepTexts train(Starter starter, int ranks, const std::string& config) {
    const std::filesystem::path output = folder() / folder_name(starter, ranks);
    run_well(
        {.starter = starter, .ranks = ranks, .words = words_to(output, config), .variables = {}});
    return steps_in(output);
  }
  // Four ranks by hand; `banner` must stand in what they print.
  StepTexts train_on(const std::vector<std::string>& hosts, const std::string& config,
                     const std::string& banner, const std::vector<std::string>& more = {}) {
    const std::filesystem::path output = folder() / ("hosts" + std::to_string(jobs_++));
    std::vector<std::string> words = words_to(output, config);
    words.insert(words.end(), more.begin(), more.end());
    const Ended ended = run_well(
        {.starter = Starter::kByHand, .ranks = 4, .words = words, .variables = {}, .hosts = hosts});
    EXPECT_TRUE(unwrapped(ended.out).find(banner) != std::string::npos) << ended.out;
    return steps_in(output);
  }

  std::vector<std::string> words_to(const std::filesystem::path& output, const std::string& config,
                                    int steps = kSteps) {
    return words_of({.config = config,
                     .model = small_model(folder()),
                     .data = small_tokens(folder(), 64),
                     .output = output,
                     .steps = steps,
                     .more = {}});
  }

  int jobs() const { return jobs_; }

 private:
  int jobs_ = 0;
  static std::string folder_name(Starter starter, int ranks) {
    return name_of(starter) + std::to_string(ranks);
  }
};

TEST_F(SameLosses, UnderMpirunUnderTorchrunAndByHand) {
  const std::string config = FM_SOURCES "/configs/llama.json";
  const StepTexts mpirun = train(Starter::kMpirun, 2, config);
  EXPECT_EQ(mpirun.size(), static_cast<std::size_t>(kSteps));
  EXPECT_EQ(first_difference(mpirun, train(Starter::kTorchrun, 2, config), kSteps), "");
  EXPECT_EQ(first_difference(mpirun, train(Starter::kByHand, 2, config), kSteps), "");
}

TEST_F(SameLosses, OnTheFakeDeviceAsOnThisCpu) {
  const auto train_with = [&](const std::string& name, const std::vector<std::string>& more) {
    const std::filesystem::path output = folder() / name;
    std::vector<std::string> words = words_to(output, FM_SOURCES "/configs/llama.json");
    words.insert(words.end(), more.begin(), more.end());
    const Ended ended =
        run_well({.starter = Starter::kMpirun, .ranks = 2, .words = words, .variables = {}});
    EXPECT_EQ(occurrences(unwrapped(ended.out), "each with a fake device"), name == "fake" ? 1 : 0);
    return steps_in(output);
  };
  const StepTexts cpu = train_with("cpu", {"--shm", "false"});
  EXPECT_EQ(first_difference(cpu, train_with("fake", {"--device", "fake"}), kSteps), "");
}

// 64 windows are two steps of 32: every second step has seen all of them once more.
TEST_F(SameLosses, OfLlamaJsonFallInBf16) {
  const std::filesystem::path output = folder() / "bf16";
  const Ended ended = run_well({.starter = Starter::kMpirun,
                                .ranks = 2,
                                .words = words_to(output, FM_SOURCES "/configs/llama.json", 24),
                                .variables = {}});
  EXPECT_EQ(occurrences(unwrapped(ended.out), "bf16 compute (fp32 master weights and gradients)"),
            1)
      << ended.out;
  const auto epoch = [steps = steps_in(output)](int last) {
    return std::stod(steps.at(last - 1)) + std::stod(steps.at(last));
  };
  EXPECT_LT(epoch(12), epoch(2));
  EXPECT_LT(epoch(24), epoch(12));
}

TEST_F(SameLosses, OnSeveralHostsAsOnOne) {
  const std::vector<std::string> one(4, "a");
  const std::string shared = "; shared memory beside tcp, 4 ranks";
  const std::string both = "; shared memory on each of 2 hosts beside tcp, 4 ranks";
  for (const std::string& config : {small_config(folder(), 0), small_config(folder(), 1),
                                    small_config(folder(), 2), small_config(folder(), 3)}) {
    const StepTexts alike = train_on(one, config, shared);
    EXPECT_EQ(alike.size(), static_cast<std::size_t>(kSteps));
    EXPECT_EQ(first_difference(alike, train_on({"a", "a", "b", "b"}, config, both), kSteps), "");
    EXPECT_EQ(first_difference(alike, train_on({"a", "b", "b", "b"}, config, both), kSteps), "");
  }
}

// Data ranks of one host have their parameters once, wherever the other pipe rank is.
TEST_F(SameLosses, OfAPipelineOverHosts) {
  const std::string config = small_config(folder(), 1);
  const std::vector<std::string> pipeline{"--pipe_parallel_size", "2"};
  const std::string once = ", parameters once per host";
  const StepTexts alike = train_on(std::vector<std::string>(4, "a"), config, once, pipeline);
  EXPECT_EQ(first_difference(alike, train_on({"a", "a", "b", "b"}, config, once, pipeline), kSteps),
            "");
}

// Every row on four ranks: the same digits on one host and on two, and the losses of one rank as
// long as rounding has not spread (the rate is 1e-2).
TEST_F(SameLosses, OfRowsOnSeveralRanksAndHosts) {
  const std::string config = small_config(folder(), 3, R"("sequence_parallel_size": 4)");
  const std::filesystem::path output = folder() / "alone";
  run_well({.starter = Starter::kAlone,
            .ranks = 1,
            .words = words_to(output, small_config(folder(), 0), 3),
            .variables = {}});
  const StepTexts alone = numbers_in(output, "loss");
  for (const char* method : {"ulysses", "ring", "usp"}) {
    SCOPED_TRACE(method);
    const std::vector<std::string> more{"--sequence_parallel", method};
    const std::string sequence = " x data 1 x model 1 x sequence ";
    const StepTexts alike = train_on(std::vector<std::string>(4, "a"), config, sequence, more);
    EXPECT_EQ(
        first_difference(alike, train_on({"a", "a", "b", "b"}, config, sequence, more), kSteps),
        "");
    const StepTexts losses = numbers_in(folder() / ("hosts" + std::to_string(jobs() - 1)), "loss");
    for (const int step : {1, 2, 3}) {
      EXPECT_NEAR(std::stod(losses.at(step)), std::stod(alone.at(step)), 2e-5) << step;
    }
  }
}

TEST_F(SameLosses, InCanonicalOrderOnOneRankWithTwiceTheAccumulation) {
  std::string text = content_of(FM_SOURCES "/configs/llama.json");
  text.replace(text.find('{'), 1, "{\n  \"communication_order\": \"canonical\",");
  const std::string config = write_file(folder() / "canonical.json", text);
  const StepTexts alone = train(Starter::kAlone, 1, config);
  EXPECT_EQ(alone.size(), static_cast<std::size_t>(kSteps));
  EXPECT_EQ(first_difference(alone, train(Starter::kMpirun, 2, config), kSteps), "");
  EXPECT_EQ(first_difference(alone, train(Starter::kByHand, 4, config), kSteps), "");
}

}  // namespace
}  // namespace fm::system
