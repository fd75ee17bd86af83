// Stacks that are too small for a product are refused, not overrun.
#include "machine/stacks.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "core/check.h"
#include "kernels/threads.h"

namespace fm::machine {
namespace {

using core::Bytes;

constexpr Bytes kMiB(1 << 20);

std::string refusal_of(const Stacks& stacks) {
  try {
    check_stacks(stacks);
  } catch (const core::UserError& error) {
    EXPECT_EQ(error.code(), core::ExitCode::kConfigError);
    return error.what();
  }
  return "";
}

TEST(Stacks, EveryThreadNeedsAMebibyteAndAHalf) {
  EXPECT_EQ(refusal_of({std::nullopt, std::nullopt, ""}), "");
  EXPECT_EQ(refusal_of({kMiB * 3 / 2, kMiB * 3 / 2, "OMP_STACKSIZE=1536"}), "");
  EXPECT_EQ(refusal_of({kMiB, kMiB * 8, ""}),
            "matrix products need a stack of 1536 KiB; raise its limit, as with `ulimit -s 8192` "
            "(the limit is 1024 KiB)");
  EXPECT_EQ(refusal_of({std::nullopt, kMiB, ""}),
            "matrix products need a stack of 1536 KiB in every thread; set OMP_STACKSIZE=8m "
            "(OpenMP's threads have 1024 KiB)");
  EXPECT_EQ(refusal_of({kMiB * 8, kMiB / 2, "GOMP_STACKSIZE=512"}),
            "matrix products need a stack of 1536 KiB in every thread; set OMP_STACKSIZE=8m "
            "(OpenMP's threads have 512 KiB, GOMP_STACKSIZE=512)");
}

TEST(Stacks, AreThoseOfThisProcess) {
  const int before = kernels::kernel_threads();
  kernels::set_kernel_threads(2);
  const Stacks two = stacks_here();
  kernels::set_kernel_threads(1);
  EXPECT_FALSE(stacks_here().of_threads);
  kernels::set_kernel_threads(before);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_STACK, &limit), 0);
  EXPECT_EQ(two.main.has_value(), limit.rlim_cur != RLIM_INFINITY);
  ASSERT_TRUE(two.of_threads);
  EXPECT_GT(*two.of_threads, kMiB / 64);
}

}  // namespace
}  // namespace fm::machine
