// How many threads a rank computes with.
#include "cli/cores.h"

#include "tests/cli/expect_refusal.h"

namespace fm::cli {
namespace {

TEST(Threads, OmpNumThreadsIsANumberOrAListOfLevels) {
  EXPECT_EQ(threads_in("1"), 1);
  EXPECT_EQ(threads_in("16"), 16);
  EXPECT_EQ(threads_in("4,2"), 4);
  EXPECT_EQ(threads_in("4,2,1"), 4);
  EXPECT_EQ(threads_in("1024"), 1024);
}

TEST(Threads, AnythingElseInOmpNumThreadsIsRefusedWithItsText) {
  for (const char* const bad : {"abc", "-3", "0", "99999999999", "100000", "1025", "2x", " 2",
                                "2;3", "4,", ",4", "4,x", "4,0", ""}) {
    EXPECT_TRUE(holds(refusal_of([&] { threads_in(bad); }),
                      core::concat("(OMP_NUM_THREADS=\"", bad, "\")")));
  }
}

TEST(Threads, RanksShareTheHostUnlessTheyAreBound) {
  EXPECT_EQ(threads_for({.allowed = 16, .online = 16, .local_size = 4}), 4);
  EXPECT_EQ(threads_for({.allowed = 4, .online = 16, .local_size = 4}), 4);
  EXPECT_EQ(threads_for({.allowed = 16, .online = 16, .local_size = 1}), 16);
  EXPECT_EQ(threads_for({.allowed = 2, .online = 2, .local_size = 8}), 1);
}

}  // namespace
}  // namespace fm::cli
