// Limits of memory as hosts, containers and batch systems show them.
#include <gtest/gtest.h>

#include "machine/limits.h"
#include "tests/text/data/scratch_folder.h"

namespace fm::machine {
namespace {

namespace fs = std::filesystem;

class MemoryLimits : public ::testing::Test {
 protected:
  MemoryLimits() { write("proc/sys/kernel/random/boot_id", "8c6e5e3b-0000\n"); }

  void write(const std::string& path, const std::string& text) const {
    const fs::path file = scratch_.path() / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void see(const std::string& mounts, const std::string& groups) const {
    write("proc/self/mountinfo", mounts);
    write("proc/self/cgroup", groups);
  }
  // "NAME: BYTES" of each, the scratch folder's path left out.
  std::vector<std::string> limits() const {
    std::vector<std::string> out;
    for (const MemoryLimit& limit : memory_limits(scratch_.path())) {
      std::string text = limit.name + ": " + std::to_string(limit.available.count());
      const std::string root = scratch_.path().string();
      const std::size_t at = text.find(root);
      if (at != std::string::npos) text.erase(at, root.size());
      out.push_back(text);
    }
    return out;
  }

  testing::ScratchFolder scratch_;
};

using Lines = std::vector<std::string>;
constexpr const char* kMount2 = "30 22 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n";

TEST_F(MemoryLimits, WhatTheHostHasLeft) {
  write("proc/meminfo", "MemTotal:  9000 kB\nMemFree:  10 kB\nMemAvailable:  4000 kB\n");
  EXPECT_EQ(limits(), Lines{"MemAvailable of /proc/meminfo: 4096000"});
  write("proc/meminfo", "MemAvailable:  4000 kB\nSwapTotal:  99 kB\nSwapFree:  1000 kB\n");
  EXPECT_EQ(limits(), Lines{"MemAvailable of /proc/meminfo and free swap: 5120000"});
  EXPECT_EQ(memory_limits(scratch_.path())[0].swap, core::Bytes(1'024'000));
}

TEST_F(MemoryLimits, EveryLimitedGroupOnTheWayToTheTopCounts) {
  see(kMount2, "0::/slice/job\n");
  const std::string job = "sys/fs/cgroup/slice/job/";
  write(job + "memory.max", "max\n");
  EXPECT_EQ(limits(), Lines{});
  write(job + "memory.max", "3000000\n");
  EXPECT_EQ(limits(), Lines{"the limit 3.0 MB in /sys/fs/cgroup/slice/job/memory.max: 3000000"});
  write("sys/fs/cgroup/slice/memory.max", "2000000\n");
  write("sys/fs/cgroup/other/memory.max", "1000\n");
  EXPECT_EQ(limits(), (Lines{"the limit 2.0 MB in /sys/fs/cgroup/slice/memory.max: 2000000",
                             "the limit 3.0 MB in /sys/fs/cgroup/slice/job/memory.max: 3000000"}));
}

TEST_F(MemoryLimits, PagesOfFilesCountAsFree) {
  see(kMount2, "0::/\n");
  write("sys/fs/cgroup/memory.max", "3000000\n");
  write("sys/fs/cgroup/memory.current", "1500000\n");
  EXPECT_EQ(memory_limits(scratch_.path()).at(0).available, core::Bytes(3000000));
  write("sys/fs/cgroup/memory.stat",
        "anon 900000\ninactive_file 300000\nactive_file 200000\nslab_reclaimable 50000\n");
  EXPECT_EQ(memory_limits(scratch_.path()).at(0).available, core::Bytes(2050000));
  write("sys/fs/cgroup/memory.current", "9500000\n");
  EXPECT_EQ(memory_limits(scratch_.path()).at(0).available, core::Bytes(0));
  write("proc/meminfo", "SwapFree:  1 kB\n");
  EXPECT_EQ(memory_limits(scratch_.path()).at(0).available, core::Bytes(1024));
}

TEST_F(MemoryLimits, GroupsOfVersion1) {
  see("35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
      "4:memory:/docker/abc\n3:cpu:/x\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  const std::string group = "sys/fs/cgroup/memory/docker/abc/";
  write(group + "memory.limit_in_bytes", "3000000\n");
  write(group + "memory.usage_in_bytes", "1000000\n");
  write(group + "memory.stat",
        "inactive_file 1\ntotal_inactive_file 100000\ntotal_active_file 50000\n");
  EXPECT_EQ(limits(), Lines{"the limit 3.0 MB in "
                            "/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes: 2150000"});
}

TEST_F(MemoryLimits, EachHasANameOfItsOwnOnItsMachine) {
  write("proc/meminfo", "MemAvailable:  4000 kB\n");
  see(kMount2, "0::/job\n");
  write("sys/fs/cgroup/memory.max", "3000000\n");
  write("sys/fs/cgroup/job/memory.max", "3000000\n");
  const std::vector<MemoryLimit> here = memory_limits(scratch_.path());
  ASSERT_EQ(here.size(), 3U);
  EXPECT_NE(here[0].id, here[1].id);
  EXPECT_NE(here[1].id, here[2].id);
  EXPECT_EQ(memory_limits(scratch_.path())[2].id, here[2].id);
  write("proc/sys/kernel/random/boot_id", "another\n");
  EXPECT_NE(memory_limits(scratch_.path())[2].id, here[2].id);
}

TEST_F(MemoryLimits, WhatCannotBeReadIsNoLimit) {
  EXPECT_EQ(limits(), Lines{});
  write("proc/meminfo", "MemTotal:  9000 kB\nMemAvailable:\n");
  see(kMount2, "0::/\n");
  for (const char* const odd : {"", "max", "x"}) {
    write("sys/fs/cgroup/memory.max", odd);
    EXPECT_EQ(limits(), Lines{}) << odd;
  }
  write("proc/meminfo", "MemAvailable:  4000 kB\n");
  EXPECT_EQ(limits().size(), 1U);
  write("proc/sys/kernel/random/boot_id", "");  // nobody could tell whose memory it is
  EXPECT_EQ(limits(), Lines{});
}

}  // namespace
}  // namespace fm::machine
