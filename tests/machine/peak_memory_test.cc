// The peak of this process, beside getrusage's and across exec.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "machine/limits.h"

namespace fm::machine {
namespace {

std::int64_t usage_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024L;
}

TEST(PeakMemory, GrowsWithWhatIsTouchedAndStays) {
  const core::Bytes before = peak_memory();
  constexpr std::int64_t kMore = std::int64_t{64} << 20;
  { const std::vector<char> more(kMore, 1); }
  EXPECT_GE(peak_memory().count(), before.count() + kMore / 2);
}

// Pages of the system's, because an allocator may keep what is freed.
TEST(ResidentMemory, GrowsWithWhatIsTouchedAndFallsWhenItIsGone) {
  const std::int64_t before = resident_memory().count();
  constexpr std::size_t kMore = std::size_t{64} << 20;
  void* const pages =
      mmap(nullptr, kMore, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  std::memset(pages, 1, kMore);
  EXPECT_GE(resident_memory().count(), before + std::int64_t{kMore / 2});
  munmap(pages, kMore);
  EXPECT_LT(resident_memory().count(), before + std::int64_t{kMore / 2});
}

// A process that touched 256 MB becomes another program, which finds only its own memory.
TEST(PeakMemory, IsNotThatOfTheProgramBeforeExec) {
  constexpr std::int64_t kLarge = std::int64_t{256} << 20;
  if (std::getenv("FM_TEST_AFTER_EXEC") != nullptr) {
    std::_Exit(usage_bytes() >= kLarge && peak_memory().count() < kLarge / 2 ? 0 : 1);
  }
  const pid_t child = fork();
  if (child == 0) {
    std::vector<char> more(kLarge, 1);
    asm volatile("" ::"r"(more.data()) : "memory");  // touched, whatever the compiler thinks of it
    setenv("FM_TEST_AFTER_EXEC", "1", 1);
    execl("/proc/self/exe", "machine_test",
          "--gtest_filter=PeakMemory.IsNotThatOfTheProgramBeforeExec", nullptr);
    std::_Exit(2);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace fm::machine
