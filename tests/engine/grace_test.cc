// The time between SIGTERM and SIGKILL beside the time of a save.
#include "engine/shown/grace.h"

#include <gtest/gtest.h>

namespace fm::engine {
namespace {

const Grace kMpirun{.giver = "mpirun", .seconds = 1.0, .longer = "wait longer"};

TEST(Grace, WhatIsLeftCountsFromTheSignal) {
  EXPECT_EQ(seconds_left(kMpirun, 0.0, 5000.0), 1.0);
  EXPECT_EQ(seconds_left(kMpirun, 0.25, 5000.0), 0.75);
  EXPECT_EQ(seconds_left(kMpirun, 3.0, 5000.0), -2.0);
}

// Slurm: --signal=TERM@120 comes that long before the end; scancel at any time, KillWait before
// SIGKILL.
TEST(Grace, AJobsEndCountsShortlyBeforeIt) {
  const Grace slurm{.giver = "Slurm", .seconds = 30.0, .ends = 10'000};
  EXPECT_EQ(seconds_left(slurm, 5.0, 9'880.0), 120.0);
  EXPECT_EQ(seconds_left(slurm, 5.0, 1'000.0), 25.0);   // hours before: another signal
  EXPECT_EQ(seconds_left(slurm, 5.0, 10'001.0), 25.0);  // the limit itself
}

TEST(Grace, BothTimesStandBesideEachOther) {
  EXPECT_EQ(grace_text(kMpirun, 0.31), "a save takes 0.3 s; mpirun gives 1.0 s after SIGTERM");
  EXPECT_EQ(grace_text(kMpirun, 0.0),
            "how long a save takes shows after the first one; mpirun gives 1.0 s after SIGTERM");
  EXPECT_EQ(grace_warning(kMpirun, 1.0), "");
  const std::string warning = grace_warning(kMpirun, 12.4);
  EXPECT_NE(warning.find("a save takes 12 s and would not end in the 1.0 s that mpirun gives"),
            std::string::npos)
      << warning;
  EXPECT_NE(warning.find("wait longer"), std::string::npos) << warning;
}

}  // namespace
}  // namespace fm::engine
