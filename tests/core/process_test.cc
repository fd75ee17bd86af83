// What the system tells of this process and of others.
#include "core/process.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <fstream>

namespace fm::core {
namespace {

TEST(ProcessStat, BeginsBehindANameThatHoldsAnything) {
  ASSERT_EQ(prctl(PR_SET_NAME, "a) Z (b 1"), 0);
  const std::vector<std::string> stat = process_stat(getpid());
  prctl(PR_SET_NAME, "core_test");
  ASSERT_GT(stat.size(), kBeganField);
  EXPECT_EQ(stat[0], "R");
  EXPECT_EQ(stat[1], std::to_string(getppid()));
  double uptime_s = 0;
  std::ifstream("/proc/uptime") >> uptime_s;
  const double began = std::stod(stat[kBeganField]) / static_cast<double>(sysconf(_SC_CLK_TCK));
  EXPECT_GT(began, 0);
  EXPECT_LE(began, uptime_s);
}

TEST(ProcessStat, IsEmptyWhereThereIsNoProcess) { EXPECT_TRUE(process_stat(0).empty()); }

}  // namespace
}  // namespace fm::core
