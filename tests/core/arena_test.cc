#include "core/arena.h"

#include <gtest/gtest.h>

#include <vector>

namespace fm::core {
namespace {

TEST(Arena, TakesAreSixteenElementsApart) {
  std::vector<float> memory(64);
  Arena arena(memory);
  EXPECT_EQ(arena.take(1) - memory.data(), 0);
  EXPECT_EQ(arena.take(17) - memory.data(), 16);
  EXPECT_EQ(arena.take(16) - memory.data(), 48);
}

TEST(Arena, AlignedRoundsUpToSixteen) {
  EXPECT_EQ(Arena::aligned(0), 0);
  EXPECT_EQ(Arena::aligned(1), 16);
  EXPECT_EQ(Arena::aligned(16), 16);
  EXPECT_EQ(Arena::aligned(17), 32);
}

TEST(Arena, ScopesGiveBackWhatWasTakenInside) {
  std::vector<float> memory(48);
  Arena arena(memory);
  const float* outer = arena.take(16);
  const float* first = nullptr;
  {
    const Arena::Scope scope(arena);
    first = arena.take(16);
    {
      const Arena::Scope inner(arena);
      EXPECT_EQ(arena.take(16), first + 16);
    }
    EXPECT_EQ(arena.take(16), first + 16);
  }
  EXPECT_EQ(first, outer + 16);
  EXPECT_EQ(arena.take(32), first);
}

TEST(Arena, TakingMoreThanThereIsIsADefect) {
  std::vector<float> memory(32);
  Arena arena(memory);
  arena.take(16);
  EXPECT_THROW(arena.take(17), BugError);
  EXPECT_NO_THROW(arena.take(16));  // the refused take used nothing
  EXPECT_THROW(arena.take(1), BugError);
}

}  // namespace
}  // namespace fm::core
