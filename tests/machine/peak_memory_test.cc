// The peak of this process, beside getrusage's and across exec.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "machine/limits.h"

namespace fm::machine {
namespace {

std::int64_t usage_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024L;
}

// Touched pages of the system's, because an allocator may keep what is freed. Where this process
// may lock them, none is swapped out.
class Pages {
 public:
  explicit Pages(std::int64_t bytes)
      : bytes_(static_cast<std::size_t>(bytes)),
        data_(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (data_ == MAP_FAILED) throw std::bad_alloc();
    static_cast<void>(mlock(data_, bytes_));
    std::memset(data_, 1, bytes_);
  }
  ~Pages() { munmap(data_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

 private:
  std::size_t bytes_;
  void* data_;
};

constexpr std::int64_t kMore = std::int64_t{64} << 20;

// What ran before in this process has a peak, too: more than that is touched.
TEST(PeakMemory, GrowsWithWhatIsTouchedAndStays) {
  const std::int64_t before = peak_memory().count();
  { const Pages pages(before - resident_memory().count() + kMore); }
  EXPECT_GE(peak_memory().count(), before + kMore / 2);
}

TEST(ResidentMemory, GrowsWithWhatIsTouchedAndFallsWhenItIsGone) {
  const std::int64_t before = resident_memory().count();
  {
    const Pages pages(kMore);
    EXPECT_GE(resident_memory().count(), before + kMore / 2);
  }
  EXPECT_LT(resident_memory().count(), before + kMore / 2);
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
