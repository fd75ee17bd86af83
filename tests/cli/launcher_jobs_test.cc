#include "cli/launcher_jobs.h"

#include <gtest/gtest.h>

#include <map>

#include "checkpoint/lineage.h"

namespace fm::cli {
namespace {

LauncherJobs jobs_with(const std::map<std::string, std::string>& variables) {
  return launcher_jobs([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

TEST(LauncherJobs, AJobIsKnownByItsNameAndARestartByItsCount) {
  EXPECT_TRUE(jobs_with({{"FME_RESTART_COUNT", "2"}}).all.empty());
  const LauncherJobs first = jobs_with({{"FME_LAUNCH_ID", "a1"}, {"FME_RESTART_COUNT", "0"}});
  EXPECT_EQ(first.all, std::vector{checkpoint::hash_of_job("fmengine launch a1")});
  EXPECT_TRUE(first.restarted.empty());
  const LauncherJobs again = jobs_with({{"FME_LAUNCH_ID", "a1"}, {"FME_RESTART_COUNT", "1"}});
  EXPECT_EQ(again.all, first.all);
  EXPECT_EQ(again.restarted, first.all);
}

TEST(LauncherJobs, ALauncherWithinAJobOfSlurmHasBothNames) {
  const LauncherJobs requeued =
      jobs_with({{"SLURM_JOB_ID", "7"}, {"SLURM_RESTART_COUNT", "1"}, {"FME_LAUNCH_ID", "b2"}});
  EXPECT_EQ(requeued.all.size(), 2U);
  EXPECT_EQ(requeued.restarted, std::vector{checkpoint::hash_of_job("Slurm 7")});
}

TEST(LauncherJobs, NoneIsTheNameOfManyJobsOfTorchrun) {
  EXPECT_TRUE(jobs_with({{"TORCHELASTIC_RUN_ID", "none"}, {"TORCHELASTIC_RESTART_COUNT", "1"}})
                  .all.empty());
  EXPECT_EQ(jobs_with({{"TORCHELASTIC_RUN_ID", "x"}, {"TORCHELASTIC_RESTART_COUNT", "1"}})
                .restarted.size(),
            1U);
}

}  // namespace
}  // namespace fm::cli
