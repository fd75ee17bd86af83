// FMEngine's own llama.json: the same losses and gradient norms, digit for digit, however the ranks
// were started, and in canonical order on half as many ranks with twice the accumulation.
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
    run_well({.starter = starter,
              .ranks = ranks,
              .words = words_of({.config = config,
                                 .model = small_model(folder()),
                                 .data = small_tokens(folder(), 64),
                                 .output = output,
                                 .steps = kSteps,
                                 .more = {"--precision", "fp32"}}),
              .variables = {}});
    return steps_in(output);
  }

 private:
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
