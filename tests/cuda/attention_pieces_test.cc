#include "device/cuda/attention_pieces.h"

#include <gtest/gtest.h>

#include "device/cuda.h"

namespace fm::device::cuda {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

kernels::AttentionShape shape_of(std::int64_t rows, std::int64_t tokens, std::int64_t heads,
                                 std::int64_t kv_heads, std::int64_t dim) {
  kernels::AttentionShape shape;
  shape.batch = {rows, tokens};
  shape.heads = heads;
  shape.kv_heads = kv_heads;
  shape.head_dim = dim;
  return shape;
}

// What plans of cuDNN 9.19 said, in halves of a MiB.
TEST(AttentionWorkspace, IsWhatPlansSaidWithALittleToSpare) {
  const struct {
    std::int64_t rows, tokens, dim;
    int architecture;
    bool repeatable;
    double said;  // MiB
  } cases[] = {
      {1, 4096, 64, 90, false, 64.5},   {1, 4096, 64, 90, true, 1056.5},
      {1, 4096, 64, 80, false, 96.5},   {1, 4096, 64, 80, true, 1056.5},
      {1, 4096, 64, 100, false, 64.5},  {1, 4096, 64, 100, true, 64.5},
      {4, 4096, 64, 90, false, 258},    {4, 4096, 64, 90, true, 4226},
      {4, 4096, 128, 90, false, 514},   {4, 4096, 128, 80, false, 770},
      {4, 4096, 128, 100, false, 514},  {1, 8192, 128, 90, false, 257},
      {1, 8192, 128, 90, true, 4225},   {1, 4096, 128, 90, true, 1088.5},
      {1, 4096, 128, 80, true, 1088.5}, {1, 4096, 128, 100, true, 128.5},
  };
  for (const auto& each : cases) {
    const AttentionPiece piece{.backward = true,
                               .repeatable = each.repeatable,
                               .rows = each.rows,
                               .tokens = each.tokens,
                               .heads = 32,
                               .kv_heads = 8,
                               .head_dim = each.dim};
    const core::Bytes counted = attention_workspace(piece, each.architecture);
    const double mib = static_cast<double>(counted.count()) / kMiB;
    EXPECT_GE(mib, each.said) << each.said;
    EXPECT_LE(mib, 1.011 * each.said + 2) << each.said;
  }
}

TEST(AttentionPieces, AreTheLargestThatFit) {
  const core::Bytes all = attention_memory(core::Bytes(std::int64_t{80} << 30));
  EXPECT_EQ(all.count(), 1104 * kMiB);
  const auto pieces = [&](const kernels::AttentionShape& shape, bool repeatable,
                          core::Bytes space) {
    return attention_pieces(shape, core::DType::kBF16, repeatable, 90, space);
  };
  // A row of 32 heads, wherever heads are 64 or 128 numbers; two whole rows of 2,048 tokens.
  for (const std::int64_t dim : {64, 128}) {
    const auto found = pieces(shape_of(4, 4096, 32, 8, dim), true, all);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->forward.rows, 4);
    EXPECT_EQ(found->backward.rows, 1);
    EXPECT_EQ(found->backward.heads, 32);
  }
  EXPECT_EQ(pieces(shape_of(6, 2048, 32, 8, 64), true, all)->backward.rows, 3);
  EXPECT_EQ(pieces(shape_of(4, 4096, 32, 8, 64), false, all)->backward.rows, 4);
  // Some groups of heads: 8 of 32 heads at 8,192 tokens.
  const auto long_rows = pieces(shape_of(2, 8192, 32, 8, 128), true, all);
  ASSERT_TRUE(long_rows.has_value());
  EXPECT_EQ(long_rows->backward.rows, 1);
  EXPECT_EQ(long_rows->backward.kv_heads, 2);
  EXPECT_EQ(long_rows->backward.heads, 8);
  EXPECT_EQ(long_rows->backward.all_heads, 32);
  EXPECT_EQ(long_rows->backward.all_kv_heads, 8);
  // Not even one group.
  EXPECT_FALSE(pieces(shape_of(1, 32768, 32, 8, 128), true, all).has_value());
  EXPECT_TRUE(pieces(shape_of(1, 32768, 32, 8, 128), false, all).has_value());
}

TEST(AttentionPieces, AreNoneWhereALibraryWantsOtherArrays) {
  const core::Bytes space(1104 * kMiB);
  const kernels::AttentionShape plain = shape_of(2, 128, 4, 2, 64);
  const auto found = [&](const kernels::AttentionShape& shape,
                         core::DType element = core::DType::kBF16) {
    return attention_pieces(shape, element, true, 90, space).has_value();
  };
  EXPECT_TRUE(found(plain));
  EXPECT_TRUE(found(plain, core::DType::kF16));
  EXPECT_FALSE(found(plain, core::DType::kF32));
  const std::int32_t start = 0;
  kernels::AttentionShape other = plain;
  other.starts_BT = &start;
  EXPECT_FALSE(found(other));
  other = plain;
  other.dropout.dropped = 1;
  EXPECT_FALSE(found(other));
  other = plain;
  other.softcap = 50.0F;
  EXPECT_FALSE(found(other));
  other = plain;
  other.runs.row = 256;
  EXPECT_FALSE(found(other));
  other = plain;
  other.head_dim = 20;
  EXPECT_FALSE(found(other));
  other.head_dim = 264;
  EXPECT_FALSE(found(other));
  other = plain;
  other.window = 128;  // all of the row
  EXPECT_EQ(attention_pieces(other, core::DType::kBF16, true, 90, space)->forward.window, 0);
  other.window = 127;
  EXPECT_EQ(attention_pieces(other, core::DType::kBF16, true, 90, space)->forward.window, 127);
}

}  // namespace
}  // namespace fm::device::cuda
