#include "core/arena.h"

#include <gtest/gtest.h>

#include <cstddef>

namespace fm::core {
namespace {

template <int kBytes>
struct Memory {
  alignas(64) std::byte bytes[kBytes];
};

TEST(Arena, TakesOfAnyTypeAreWholeLinesApart) {
  Memory<320> memory;
  Arena arena(memory.bytes);
  const auto at = [&](const void* taken) {
    return static_cast<const std::byte*>(taken) - memory.bytes;
  };
  EXPECT_EQ(at(arena.take<float>(1)), 0);
  EXPECT_EQ(at(arena.take<float>(17)), 64);
  EXPECT_EQ(at(arena.take<std::uint16_t>(32)), 192);
  EXPECT_EQ(at(arena.take<double>(1)), 256);
}

TEST(Arena, AlignedRoundsUpToLines) {
  EXPECT_EQ(Arena::aligned<float>(0), Bytes(0));
  EXPECT_EQ(Arena::aligned<float>(1), Bytes(64));
  EXPECT_EQ(Arena::aligned<float>(16), Bytes(64));
  EXPECT_EQ(Arena::aligned<float>(17), Bytes(128));
  EXPECT_EQ(Arena::aligned<std::uint16_t>(32), Bytes(64));
  EXPECT_EQ(Arena::aligned<std::uint16_t>(33), Bytes(128));
}

TEST(Arena, ScopesGiveBackWhatWasTakenInside) {
  Memory<192> memory;
  Arena arena(memory.bytes);
  const float* outer = arena.take<float>(16);
  const float* first = nullptr;
  {
    const Arena::Scope scope(arena);
    first = arena.take<float>(16);
    {
      const Arena::Scope inner(arena);
      EXPECT_EQ(arena.take<float>(16), first + 16);
    }
    EXPECT_EQ(arena.take<float>(16), first + 16);
  }
  EXPECT_EQ(first, outer + 16);
  EXPECT_EQ(arena.take<float>(32), first);
}

TEST(Arena, TakingMoreThanThereIsIsADefect) {
  Memory<128> memory;
  Arena arena(memory.bytes);
  arena.take<float>(16);
  EXPECT_THROW(arena.take<float>(17), BugError);
  EXPECT_NO_THROW(arena.take<float>(16));  // the refused take used nothing
  EXPECT_THROW(arena.take<float>(1), BugError);
}

}  // namespace
}  // namespace fm::core
