// The run that the tests of survival interrupt. Canonical order: one process is the reference for
// any number of ranks.
#pragma once

#include <string>

#include "tests/system/small_job.h"
#include "tests/system/system_case.h"

namespace fm::system {

constexpr int kEndless = 1'000'000'000;  // steps of a run that something must end
constexpr int kLongest = 6000;           // steps of the reference; what is behind is not compared

struct Interrupted {
  Starter starter = Starter::kByHand;
  int ranks = 2;
  int pipe_ranks = 1;
  int zero_stage = 2;
  int steps = 400;
  int save_steps = 25;
  std::vector<std::string> more = {};
  std::string fault = "";
};

// A fault that keeps a rank before this step for longer than kLimitMs: what happens to the job
// comes before its end, however busy the machine is.
std::string held_before(int rank, int step);

class LongRun : public SystemCase {
 protected:
  Launch launch_of(const Interrupted& run) const;
  std::filesystem::path output() const { return folder() / "output"; }
  // Starts the same command without its fault and lets it come to its end: exit code 0, and the
  // merged losses and norms are those of a run that nobody interrupted. Returns what it wrote.
  Ended resume_to_the_end(const Interrupted& run);
};

StepTexts first_steps(const std::filesystem::path& output, int count);

// Losses and norms of kLongest steps without interruption.
const StepTexts& uninterrupted();

}  // namespace fm::system
