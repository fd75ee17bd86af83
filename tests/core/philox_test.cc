// Known answers of philox4x32-10 from Random123 (kat_vectors), of FNV-1a 64 from its reference.
#include "core/philox.h"

#include <gtest/gtest.h>

namespace fm::core {
namespace {

TEST(Philox, MatchesTheKnownAnswersOfRandom123) {
  EXPECT_EQ(philox(0, 0, 0), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const std::uint64_t ones = ~std::uint64_t{0};
  EXPECT_EQ(philox(ones, ones, ones),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  // Digits of pi; the first word of the published vector is the low one.
  EXPECT_EQ(philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformIsNeverZeroAndReachesOne) {
  EXPECT_EQ(uniform_of(0), 0x1p-24F);
  EXPECT_EQ(uniform_of(0xFFFFFFFFU), 1.0F);
  EXPECT_EQ(uniform_of(0x7FFFFFFFU), 0.5F);
}

TEST(Philox, StreamKeyWithoutSeedIsFnv1a) {
  EXPECT_EQ(stream_key(0, ""), 0xcbf29ce484222325U);
  EXPECT_EQ(stream_key(0, "a"), 0xaf63dc4c8601ec8cU);
  EXPECT_EQ(stream_key(0, "foobar"), 0x85944171f73967e8U);
}

TEST(Philox, StreamKeyDependsOnTheSeed) {
  EXPECT_NE(stream_key(1, "a"), stream_key(2, "a"));
  EXPECT_NE(stream_key(1, "a"), stream_key(1, "b"));
}

}  // namespace
}  // namespace fm::core
