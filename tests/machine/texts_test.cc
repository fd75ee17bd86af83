// Text of /proc into lines.
#include <gtest/gtest.h>

#include "machine/limits.h"

namespace fm::machine {
namespace {

constexpr const char* kCpuInfo =
    "processor\t: 0\nmodel name\t: Some CPU @ 2.10GHz\nflags\t\t: fpu sse4_2 avx avx2 fma avx512f\n"
    "\nprocessor\t: 1\nmodel name\t: Other\nflags\t\t: fpu\n";

TEST(MachineTexts, ReadsTheFirstCpu) {
  EXPECT_EQ(cpu_model(kCpuInfo), "Some CPU @ 2.10GHz");
  EXPECT_EQ(instruction_sets(kCpuInfo), "sse4_2 avx fma avx2 avx512f");
  EXPECT_EQ(cpu_model(""), "unknown");
  EXPECT_EQ(instruction_sets(""), "none that matter");
}

TEST(MachineTexts, MemoryIsInPowersOfTen) {
  // 1 kB of /proc/meminfo is 1,024 bytes: 10,000,000 kB are 1.024e10 bytes.
  EXPECT_EQ(memory_line("MemTotal:       10000000 kB\nMemFree: 1 kB\nMemAvailable:  5000000 kB\n"),
            "10.2 GB, 5.1 GB available");
}

TEST(MachineTexts, NumbersInARowAreARange) {
  EXPECT_EQ(ranges({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
  EXPECT_EQ(ranges({3}), "3");
  EXPECT_EQ(ranges({}), "");
}

}  // namespace
}  // namespace fm::machine
