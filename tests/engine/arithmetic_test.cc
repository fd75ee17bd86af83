// All ranks compute alike, or the difference is named.
#include <gtest/gtest.h>

#include "engine/state/run_identity.h"
#include "kernels/gemm/gemm.h"
#include "kernels/threads.h"
#include "small_run.h"
#include "trainer_case.h"

namespace fm::engine {
namespace {

// Ranks 0, 1, 2; returns rank 0's warning, after checking that all ranks have the same.
std::string check(const std::vector<Arithmetic>& ranks) {
  std::vector<std::string> warnings(ranks.size());
  comm::run_ranks(static_cast<int>(ranks.size()), [&](comm::Communicator& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    warnings[rank] = check_same_arithmetic(ranks[rank], world);
  });
  for (const std::string& warning : warnings) EXPECT_EQ(warning, warnings[0]);
  return warnings[0];
}

TEST(ArithmeticOfRanks, EqualOnesAreNoWord) {
  EXPECT_EQ(check({{"G", 2}, {"G", 2}, {"G", 2}}), "");
}

TEST(ArithmeticOfRanks, OtherLibrariesAreRefusedWithBothTexts) {
  expect_error(core::ExitCode::kConfigError, "(rank 2: G (avx2), T; rank 0: G (avx512), T)", [] {
    check({{"G (avx512), T", 1}, {"G (avx512), T", 1}, {"G (avx2), T", 1}});
  });
}

TEST(ArithmeticOfRanks, OtherThreadsAreSaid) {
  const std::string warning = check({{"G", 1}, {"G", 1}, {"G", 4}});
  EXPECT_EQ(occurrences(warning, "(rank 2: G, 4 threads per rank; rank 0: G, 1 thread per rank)"),
            1)
      << warning;
}

TEST(ArithmeticOfRanks, ThisProcessNamesItsLibrariesAndThreads) {
  const std::string text = text_of(arithmetic_here(core::DType::kF32));
  EXPECT_TRUE(text.starts_with(kernels::gemm_library(core::DType::kF32) + ", attention own" +
                               (kernels::amx_chosen() ? " (AMX), " : ", ")))
      << text;
  EXPECT_NE(text.find(core::concat(", ", kernels::kernel_threads(), " thread")), std::string::npos)
      << text;
}

}  // namespace
}  // namespace fm::engine
