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
  EXPECT_TRUE(cli::holds(resolved(7, kNone, 1, 2), "7 != 3 * 1 * 2"));
}

std::string dealt(Given train, Given micro, int dp_size) {
  return dealt_text(resolve_batch({train, micro, kNone}, dp_size), dp_size);
}

TEST(BatchTriad, ARestOfMicroBatchesGoesToTheFirstDataRanks) {
  EXPECT_EQ(dealt(8, 1, 3), "8 samples = 1 per micro-batch x 3, 3, 2 on 3 data ranks");
  EXPECT_EQ(dealt(8, 2, 3), "8 samples = 2 per micro-batch x 2, 1, 1 on 3 data ranks");
  EXPECT_EQ(dealt(7, 1, 2), "7 samples = 1 per micro-batch x 4, 3 on 2 data ranks");
  EXPECT_EQ(dealt(8, 1, 4), "8 samples = 1 per micro-batch x 2 accumulation x 4 data ranks");
  EXPECT_EQ(dealt(100, 5, 9),
            "100 samples = 5 per micro-batch x 3 on 2 and 2 on 7 of 9 data ranks");
  for (int dp_size = 1; dp_size <= 8; ++dp_size) {
    const ResolvedBatch batch = resolve_batch({8, 1, kNone}, dp_size);
    std::int64_t samples = 0;
    for (int rank = 0; rank < dp_size; ++rank) samples += batch.micros_of(rank, dp_size);
    EXPECT_EQ(samples, 8) << dp_size;
    EXPECT_EQ(batch.micros_of(0, dp_size), batch.accumulation) << dp_size;
  }
}

// 512 on 3: 171 of 1 would be the least, 3 micro-batches of 64 are 192 <= 171 x 9 / 8.
TEST(BatchTriad, MicroBatchesThatNobodyGaveAreLargeAndDealtAlmostEvenly) {
  EXPECT_EQ(dealt(8, kNone, 3), "8 samples = 1 per micro-batch x 3, 3, 2 on 3 data ranks");
  EXPECT_EQ(dealt(7, kNone, 2), "7 samples = 1 per micro-batch x 4, 3 on 2 data ranks");
  EXPECT_EQ(dealt(512, kNone, 3), "512 samples = 64 per micro-batch x 3, 3, 2 on 3 data ranks");
  EXPECT_EQ(dealt(9, kNone, 3), "9 samples = 3 per micro-batch x 1 accumulation x 3 data ranks");
}

TEST(BatchTriad, WhatCannotBeDealtIsRefusedWithTheNumbersThatCan) {
  using cli::holds;
  const std::string cure = "train_micro_batch_size_per_gpu is one of ";
  EXPECT_TRUE(holds(resolved(8, 1, 4, 3), "8 != 1 * 4 * 3"));
  EXPECT_TRUE(holds(resolved(8, 1, 4, 3), cure + "1, 2 ("));
  EXPECT_TRUE(holds(resolved(8, kNone, 2, 3), cure + "1, 2 ("));
  EXPECT_TRUE(holds(resolved(8, 4, kNone, 3), cure + "1, 2 ("));  // two micro-batches, three ranks
  EXPECT_TRUE(holds(resolved(8, 3, kNone, 2), cure + "1, 2, 4 ("));
  EXPECT_FALSE(holds(resolved(2, kNone, kNone, 4), cure));  // no number of samples helps
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
