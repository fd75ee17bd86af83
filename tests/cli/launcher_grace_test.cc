// Who gives how long between SIGTERM and SIGKILL (the launchers' sources and manuals).
#include "cli/launcher_grace.h"

#include <gtest/gtest.h>

#include <map>

namespace fm::cli {
namespace {

using Variables = std::map<std::string, std::string>;

std::optional<engine::Grace> grace_with(const Variables& variables,
                                        std::optional<std::int64_t> asked = std::nullopt) {
  return launcher_grace(
      [&](const std::string& name) -> std::optional<std::string> {
        const auto at = variables.find(name);
        if (at == variables.end()) return std::nullopt;
        return at->second;
      },
      asked);
}

TEST(LauncherGrace, IsThatOfTheLauncherWhoseVariablesAreThere) {
  EXPECT_FALSE(grace_with({}));
  EXPECT_EQ(grace_with({{"OMPI_COMM_WORLD_SIZE", "2"}})->seconds, 1.0);
  EXPECT_EQ(grace_with({{"OMPI_COMM_WORLD_SIZE", "2"}})->giver, "mpirun");
  EXPECT_EQ(grace_with({{"TORCHELASTIC_RUN_ID", "none"}})->seconds, 30.0);
  EXPECT_EQ(grace_with({{"CROSS_SIZE", "1"}})->giver, "the DeepSpeed launcher");
  EXPECT_EQ(grace_with({{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}})->giver, "Kubernetes");
  EXPECT_FALSE(grace_with({{"OMPI_COMM_WORLD_SIZE", "2"}})->from_all);
}

TEST(LauncherGrace, OfMpirunIsWhatItsParameterSays) {
  const auto with = [](const char* value) {
    return grace_with(
               {{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_MCA_odls_base_sigkill_timeout", value}})
        ->seconds;
  };
  EXPECT_EQ(with("60"), 60.0);
  EXPECT_EQ(with("soon"), 1.0);
}

TEST(LauncherGrace, OfSeveralIsTheLeast) {
  const auto both = grace_with(
      {{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_END_TIME", "1700000000"}, {"OMPI_COMM_WORLD_SIZE", "2"}});
  EXPECT_EQ(both->giver, "mpirun");
  EXPECT_EQ(both->ends, 0);  // it does not wait until then
  const auto slurm = grace_with({{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_END_TIME", "1700000000"}});
  EXPECT_EQ(slurm->seconds, 30.0);
  EXPECT_EQ(slurm->ends, 1'700'000'000);
}

TEST(LauncherGrace, IsWhatTheUserSays) {
  EXPECT_EQ(grace_with({{"SLURM_JOB_ID", "7"}}, 90)->seconds, 90.0);
  EXPECT_TRUE(grace_with({}, 90)->from_all);
  EXPECT_FALSE(grace_with({{"SLURM_JOB_ID", "7"}}, 0));
}

}  // namespace
}  // namespace fm::cli
