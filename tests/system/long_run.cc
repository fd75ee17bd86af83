#include "tests/system/long_run.h"

#include <algorithm>

#include "core/check.h"

namespace fm::system {
namespace {

namespace fs = std::filesystem;

Launch launch_in(const fs::path& folder, const Interrupted& run) {
  SmallRun small{
      .config = small_config(folder, run.zero_stage, R"("communication_order": "canonical")"),
      .model = small_model(folder),
      .data = small_tokens(folder, 200),
      .output = folder / "output",
      .steps = run.steps,
      .save_steps = run.save_steps,
      .more = run.more};
  // mpirun stops reading while it sends SIGTERM: ranks that print every step would wait for it.
  small.more.insert(small.more.end(), {"--log_steps", "100"});
  if (run.pipe_ranks > 1) {
    small.more.insert(small.more.end(), {"--pipe_parallel_size", std::to_string(run.pipe_ranks)});
  }
  Launch launch{
      .starter = run.starter, .ranks = run.ranks, .words = words_of(small), .variables = {}};
  if (!run.fault.empty()) launch.variables.push_back("FME_FAULT=" + run.fault);
  return launch;
}

}  // namespace

const StepTexts& uninterrupted() {
  static const StepTexts steps = [] {
    const ScratchFolder scratch;
    const Interrupted alone{.starter = Starter::kAlone,
                            .ranks = 1,
                            .zero_stage = 0,
                            .steps = kLongest,
                            .save_steps = 0};
    run_reference(launch_in(scratch.path(), alone), scratch.path() / "job");
    return steps_in(scratch.path() / "output");
  }();
  return steps;
}

Launch LongRun::launch_of(const Interrupted& run) const { return launch_in(folder(), run); }

StepTexts first_steps(const fs::path& output, int count) {
  StepTexts steps = steps_in(output);
  steps.erase(steps.upper_bound(count), steps.end());
  return steps;
}

std::string held_before(int rank, int step) {
  return core::concat("rank=", rank, ",step=", step, ",point=step.pre,action=sleep:", 2 * kLimitMs);
}

Ended LongRun::resume_to_the_end(const Interrupted& run) {
  Interrupted whole = run;
  whole.fault = "";
  const Ended ended = run_well(launch_of(whole));
  const int compared = std::min(run.steps, kLongest);
  EXPECT_EQ(first_difference(uninterrupted(), first_steps(output(), kLongest), compared), "");
  EXPECT_EQ(leftovers_in(output()), "");
  return ended;
}

}  // namespace fm::system
