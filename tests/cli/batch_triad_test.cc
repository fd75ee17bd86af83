// DeepSpeed's rules and messages: deepspeed/runtime/config.py, _set_batch_related_parameters and
// _batch_assertion.
#include "engine/plan/batch_triad.h"

#include <limits>

#include "tests/cli/expect_refusal.h"

namespace fm::engine {
namespace {

using Given = std::optional<std::int64_t>;
constexpr auto kNone = std::nullopt;

std::string resolved(Given train, Given micro, Given accumulation, int dp_size) {
  try {
    const ResolvedBatch batch = resolve_batch({train, micro, accumulation}, dp_size);
    return core::concat(batch.train_batch, " = ", batch.micro_batch, " x ", batch.accumulation,
                        " x ", dp_size);
  } catch (const core::UserError& error) {
    return error.what();
  }
}

TEST(BatchTriad, FillsWhatIsMissing) {
  EXPECT_EQ(resolved(32, 4, 2, 4), "32 = 4 x 2 x 4");
  EXPECT_EQ(resolved(32, 4, kNone, 4), "32 = 4 x 2 x 4");
  EXPECT_EQ(resolved(32, kNone, 2, 4), "32 = 4 x 2 x 4");
  EXPECT_EQ(resolved(kNone, 4, 2, 4), "32 = 4 x 2 x 4");
  EXPECT_EQ(resolved(32, kNone, kNone, 4), "32 = 8 x 1 x 4");
  EXPECT_EQ(resolved(kNone, 4, kNone, 4), "16 = 4 x 1 x 4");
}

TEST(BatchTriad, OneOfTheBatchesIsRequired) {
  using cli::holds;
  const std::string said = "Either train_batch_size or train_micro_batch_size_per_gpu needs to be";
  EXPECT_TRUE(holds(resolved(kNone, kNone, kNone, 2), said));
  EXPECT_TRUE(holds(resolved(kNone, kNone, 4, 2), said));
}

TEST(BatchTriad, ADivisionThatLosesARestIsRefusedWithItsArithmetic) {
  EXPECT_TRUE(cli::holds(resolved(10, 3, kNone, 1), "10 != 3 * 3 * 1"));
  EXPECT_TRUE(cli::holds(resolved(32, 4, 2, 2), "32 != 4 * 2 * 2; use 16"));
  EXPECT_TRUE(cli::holds(resolved(7, kNone, kNone, 2), "7 != 3 * 1 * 2"));
}

TEST(BatchTriad, EveryPartMustBePositive) {
  EXPECT_TRUE(cli::holds(resolved(0, kNone, kNone, 1), "Train batch size: 0 has to be greater"));
  EXPECT_TRUE(cli::holds(resolved(-8, 4, kNone, 1), "Train batch size: -8 has to be greater"));
  EXPECT_TRUE(cli::holds(resolved(2, kNone, kNone, 4), "Micro batch size per gpu: 0 has to be"));
  EXPECT_TRUE(cli::holds(resolved(8, 0, kNone, 1), "Micro batch size per gpu: 0 has to be"));
  EXPECT_TRUE(cli::holds(resolved(8, 8, kNone, 2), "Gradient accumulation steps: 0 has to be"));
  EXPECT_TRUE(cli::holds(resolved(8, kNone, 0, 2), "Gradient accumulation steps: 0 has to be"));
}

// -2^63 / -1 does not fit and raises SIGFPE, whatever is checked afterwards.
TEST(BatchTriad, NegativePartsAreRefusedBeforeTheyDivide) {
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  EXPECT_TRUE(cli::holds(resolved(kLeast, -1, kNone, 1), "has to be greater than 0"));
  EXPECT_TRUE(cli::holds(resolved(kLeast, kNone, -1, 1), "has to be greater than 0"));
  EXPECT_TRUE(cli::holds(resolved(8, -1, kNone, 1), "Micro batch size per gpu: -1 has to be"));
  EXPECT_TRUE(cli::holds(resolved(kNone, -2, -2, 1), "has to be greater than 0"));
  EXPECT_TRUE(cli::holds(resolved(8, kNone, -1, 1), "Gradient accumulation steps: -1 has to be"));
}

// 4611686018427387905 x 2 = 2^63 + 2, which wraps to a negative number; x 4 it would be 4.
TEST(BatchTriad, WhatDoesNotFitIsRefused) {
  constexpr std::int64_t kMost = 2147483647;
  EXPECT_TRUE(cli::holds(resolved(kNone, 4611686018427387905, 2, 1), "has to be at most"));
  EXPECT_TRUE(cli::holds(resolved(4, 4611686018427387905, 4, 1), "has to be at most"));
  EXPECT_TRUE(cli::holds(resolved(kMost + 1, kNone, kNone, 1), "Train batch size: 2147483648"));
  EXPECT_TRUE(cli::holds(resolved(kNone, 1, kMost + 1, 1), "Gradient accumulation steps: 2147"));
  EXPECT_EQ(resolved(kMost, kNone, kNone, 1), "2147483647 = 2147483647 x 1 x 1");
  const std::string too_many = "at most 2147483647 samples";
  EXPECT_TRUE(cli::holds(resolved(kNone, kMost, 2, 1), too_many));
  EXPECT_TRUE(cli::holds(resolved(kNone, kMost, kMost, 4), too_many));
  EXPECT_TRUE(cli::holds(resolved(kNone, kMost, kNone, 2), too_many));
  EXPECT_TRUE(cli::holds(resolved(8, kMost, kMost, 4), too_many));
  EXPECT_EQ(resolved(kNone, 1 << 15, 1 << 13, 4), "1073741824 = 32768 x 8192 x 4");
}

TEST(BatchTriad, ARefusalIsAConfigurationError) {
  EXPECT_NE(cli::refusal_of([] { resolve_batch({}, 1); }), "accepted");
}

}  // namespace
}  // namespace fm::engine
