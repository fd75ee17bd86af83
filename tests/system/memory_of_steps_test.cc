// A step in the middle of a run asks for no new memory.
#include "core/check.h"
#include "tests/system/small_job.h"
#include "tests/system/system_case.h"

namespace fm::system {
namespace {

constexpr int kSteps = 6;
constexpr int kFirst = 4;  // until then slots, lists and libraries take what they keep

class MemoryOfSteps : public SystemCase {
 protected:
  // How often rank 0 asked for a page or more, by step: counted_allocations.cc tells it in the
  // place of page faults.
  StepTexts allocations_of(int zero_stage, const std::string& more,
                           const std::vector<std::string>& flags) {
    const std::filesystem::path output = folder() / core::concat("run", runs_++);
    std::vector<std::string> words{"/usr/bin/env", "LD_PRELOAD=" FM_COUNTED_ALLOCATIONS};
    for (const std::string& word : words_of({.config = small_config(folder(), zero_stage, more),
                                   .model = small_model(folder()),
                                   .data = small_tokens(folder(), 64),
                                   .output = output,
                                   .steps = kSteps,
                                   .more = flags})) {
      words.push_back(word);
    }
    run_well({.starter = Starter::kMpirun, .ranks = 2, .words = words, .variables = {}});
    return numbers_in(output, "minor_faults");
  }

 private:
  int runs_ = 0;
};

TEST_F(MemoryOfSteps, NoneIsAskedForAfterStepThree) {
  const std::string bf16 = R"("bf16": {"enabled": true})";
  const std::string canonical = R"("communication_order": "canonical")";
  for (const int zero_stage : {0, 1, 2, 3}) {
    for (const std::string& more : {std::string(), bf16, canonical}) {
      for (const std::string shared : {"true", "false"}) {
        SCOPED_TRACE(core::concat("ZeRO ", zero_stage, ", ", more, ", --shm ", shared));
        const StepTexts counts = allocations_of(zero_stage, more, {"--shm", shared});
        // The buffers of the first messages show that they are counted.
        EXPECT_TRUE(shared == "true" || counts.at(1) != "0");
        for (int step = kFirst; step <= kSteps; ++step) EXPECT_EQ(counts.at(step), "0") << step;
      }
    }
  }
}

}  // namespace
}  // namespace fm::system
