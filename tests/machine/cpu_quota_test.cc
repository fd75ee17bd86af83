// CPU limits as containers and batch systems show them.
#include <gtest/gtest.h>

#include "machine/limits.h"
#include "tests/text/data/scratch_folder.h"

namespace fm::machine {
namespace {

namespace fs = std::filesystem;

class CpuQuota : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) const {
    const fs::path file = scratch_.path() / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void see(const std::string& mounts, const std::string& groups) const {
    write("proc/self/mountinfo", mounts);
    write("proc/self/cgroup", groups);
  }
  std::optional<double> quota() const { return cpu_quota(scratch_.path()); }

  testing::ScratchFolder scratch_;
};

constexpr const char* kMount2 =
    "22 1 8:1 / / rw - ext4 /dev/root rw\n"
    "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

TEST_F(CpuQuota, TheLeastOnTheWayToTheTopCounts) {
  see(kMount2, "0::/system.slice/job.scope\n");
  EXPECT_EQ(quota(), std::nullopt);
  write("sys/fs/cgroup/system.slice/job.scope/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), std::nullopt);
  write("sys/fs/cgroup/system.slice/cpu.max", "800000 100000\n");
  EXPECT_EQ(quota(), 8.0);
  write("sys/fs/cgroup/system.slice/job.scope/cpu.max", "125000 50000\n");
  EXPECT_EQ(quota(), 2.5);
  write("sys/fs/cgroup/other/cpu.max", "1000 100000\n");
  EXPECT_EQ(quota(), 2.5);
  write("sys/fs/cgroup/system.slice/job.scope/cpu.max", "900000 100000\n");
  EXPECT_EQ(quota(), 8.0);
}

// docker run --cpus=4: its own group is the top, and is called "/".
TEST_F(CpuQuota, AContainerSeesItsGroupAsTheTop) {
  see(kMount2, "0::/\n");
  write("sys/fs/cgroup/cpu.max", "400000 100000\n");
  EXPECT_EQ(quota(), 4.0);
}

TEST_F(CpuQuota, GroupsOfVersion1) {
  const std::string mount = " /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n";
  const std::string memory = "32 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
  const std::string groups = "5:memory:/m\n4:cpu,cpuacct:/docker/abc\n";
  see(memory + "33 31 0:29 /" + mount, groups);
  write("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), std::nullopt);
  write("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "150000\n");
  EXPECT_EQ(quota(), 1.5);
  // In the container: the mount shows the group, the path is the host's.
  see("33 31 0:29 /docker/abc" + mount, groups);
  EXPECT_EQ(quota(), std::nullopt);
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 3.0);
  see("33 31 0:29 /docker/other" + mount, groups);
  write("sys/fs/cgroup/abc/cpu.cfs_quota_us", "100000\n");
  write("sys/fs/cgroup/abc/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 3.0);
}

TEST_F(CpuQuota, WhatCannotBeReadIsNoLimit) {
  EXPECT_EQ(quota(), std::nullopt);
  see("- - -\n\n30 22 0:26 / - cgroup2 x rw\n30 22 0:26 / /sys rw - cgroup2\n", "0:\n::\nx\n");
  EXPECT_EQ(quota(), std::nullopt);
  see(kMount2, "0::/../..\n");
  for (const char* const odd : {"", "max", "100000", "x y", "-5 100000", "100000 0", "0 0"}) {
    write("sys/fs/cgroup/cpu.max", odd);
    EXPECT_EQ(quota(), std::nullopt) << odd;
  }
}

}  // namespace
}  // namespace fm::machine
