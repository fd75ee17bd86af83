// A rank is killed in a known instruction, and `fmengine blackbox` names it.
#include <signal.h>

#include <nlohmann/json.hpp>

#include "core/check.h"
#include "tests/system/long_run.h"

namespace fm::system {
namespace {

using nlohmann::json;

class KilledInAnInstruction : public LongRun {
 protected:
  Ended blackbox(std::vector<std::string> flags) {
    std::vector<std::string> words = {FM_PROGRAMS "/fmengine", "blackbox", output().string()};
    words.insert(words.end(), flags.begin(), flags.end());
    return run_well({.words = words, .variables = {}});
  }
};

// Unit 2 is the second of two blocks; its backward is the first one of a step.
TEST_F(KilledInAnInstruction, IsNamedWithItsInstructionAndItsUnit) {
  const Interrupted run{.steps = 6, .fault = "rank=1,step=4,point=bwd.layer,action=kill"};
  const Ended ended = this->run(launch_of(run));
  EXPECT_EQ(ended.codes, (std::vector<int>{20, 128 + SIGKILL})) << ended.err;
  EXPECT_NE(ended.err.find("; rank 0 was in "), std::string::npos) << ended.err;

  const json report = json::parse(blackbox({"--json", "--last", "3"}).out);
  ASSERT_EQ(report["causes"].size(), 1U) << report;
  const std::string cause = report["causes"][0];
  EXPECT_TRUE(cause.starts_with("rank 1 (host ")) << cause;
  EXPECT_NE(cause.find("is gone without an end"), std::string::npos) << cause;
  EXPECT_NE(cause.find("it was in step 4, backward B0.2 (layers.1)"), std::string::npos) << cause;
  ASSERT_EQ(report["black_boxes"].size(), 2U);
  EXPECT_EQ(report["black_boxes"][0]["exit_code"], 20);
  EXPECT_FALSE(report["black_boxes"][1].contains("exit_code"));
  EXPECT_EQ(report["black_boxes"][1]["finished"]["step"], 4);
  EXPECT_EQ(report["black_boxes"][1]["records"].size(), 3U);
  EXPECT_FALSE(report.contains("divergence"));

  // A resume keeps the rings of the crash beside its own.
  Interrupted again = run;
  again.fault = "";
  run_well(launch_of(again));
  EXPECT_NE(blackbox({}).out.find("cause: none; no rank waits for another"), std::string::npos);
  EXPECT_NE(blackbox({"--before"}).out.find("backward B0.2 (layers.1)"), std::string::npos);
}

// The groups of a pipeline of two under ZeRO-3, and no ring where none is wanted.
TEST_F(KilledInAnInstruction, OfAPipelineTooAndNoFileWhereNoneIsWanted) {
  Interrupted run{.ranks = 4,
                  .pipe_ranks = 2,
                  .zero_stage = 3,
                  .steps = 6,
                  .fault = "rank=2,step=3,point=bwd.layer,action=kill"};
  this->run(launch_of(run));
  const json report = json::parse(blackbox({"--json"}).out);
  ASSERT_EQ(report["causes"].size(), 1U) << report;
  const std::string cause = report["causes"][0];
  EXPECT_TRUE(cause.starts_with("rank 2 (host ")) << cause;
  EXPECT_NE(cause.find("it was in step 3, backward B0."), std::string::npos) << cause;

  std::filesystem::remove_all(output());
  run.fault = "";
  run.more = {"--blackbox", "false"};
  run_well(launch_of(run));
  EXPECT_FALSE(std::filesystem::exists(output() / "blackbox"));
}

}  // namespace
}  // namespace fm::system
