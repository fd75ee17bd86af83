// DeepSpeed's rules and messages: deepspeed/runtime/config.py, _set_batch_related_parameters and
// _batch_assertion.
#include "engine/batch_triad.h"

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

TEST(BatchTriad, ARefusalIsAConfigurationError) {
  EXPECT_NE(cli::refusal_of([] { resolve_batch({}, 1); }), "accepted");
}

}  // namespace
}  // namespace fm::engine
