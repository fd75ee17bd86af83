#include "core/types.h"

#include <gtest/gtest.h>

#include <type_traits>

namespace fm::core {
namespace {

static_assert(!std::is_convertible_v<Bytes, Elements>, "bytes are no elements");
static_assert(!std::is_convertible_v<std::int64_t, Bytes>, "a bare number has no unit");

TEST(Types, BytesFollowFromElementsAndType) {
  EXPECT_EQ(bytes_of(Elements(3), DType::kF32), Bytes(12));
  EXPECT_EQ(bytes_of(Elements(3), DType::kBF16), Bytes(6));
  EXPECT_EQ(bytes_of(Elements(3), DType::kF16), Bytes(6));
  EXPECT_EQ(bytes_of(Elements(3), DType::kF64), Bytes(24));
  EXPECT_EQ(bytes_of(Elements(3), DType::kI32), Bytes(12));
  EXPECT_EQ(bytes_of(Elements(3), DType::kI64), Bytes(24));
  EXPECT_EQ(bytes_of(Elements(3), DType::kU8), Bytes(3));
}

TEST(Types, QuantitiesCalculate) {
  EXPECT_EQ(Bytes(7) + Bytes(3) - Bytes(2), Bytes(8));
  EXPECT_EQ(Bytes(7) * 3, Bytes(21));
  EXPECT_EQ(Bytes(7) / 2, Bytes(3));
  EXPECT_EQ(Bytes(7) / Bytes(2), 3);
  EXPECT_EQ(Bytes(7) % Bytes(4), Bytes(3));
  EXPECT_LT(Bytes(7), Bytes(8));
}

TEST(Types, RoundingGoesUp) {
  EXPECT_EQ(round_up(Bytes(0), Bytes(64)), Bytes(0));
  EXPECT_EQ(round_up(Bytes(64), Bytes(64)), Bytes(64));
  EXPECT_EQ(round_up(Bytes(65), Bytes(64)), Bytes(128));
  EXPECT_EQ(ceil_div(7, 2), 4);
  EXPECT_EQ(ceil_div(8, 2), 4);
}

TEST(Types, TokensOfABatch) { EXPECT_EQ((BatchShape{3, 5}.tokens()), 15); }

}  // namespace
}  // namespace fm::core
