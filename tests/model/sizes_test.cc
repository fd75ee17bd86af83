// What units announce, against formulas written from the shapes of their matrices.
#include <gtest/gtest.h>

#include "kernels/gemm/gemm.h"
#include "model/units/head.h"
#include "tests/model/unit_run.h"

namespace fm::model {
namespace {

constexpr core::BatchShape kShape{.batch = 2, .seq_len = 13};
constexpr std::int64_t N = 26;  // tokens
constexpr std::int64_t D = 96;
constexpr std::int64_t F = 250;
constexpr std::int64_t V = 777;
constexpr std::int64_t kRounding = 15;  // an array ends on 64 bytes

core::Bytes f32(std::int64_t elements) { return core::Bytes(4 * elements); }

Model model_with(std::int64_t head_dim) {
  DecoderConfig config = odd_config();  // 6 query heads, 2 key and value heads
  config.head_dim = head_dim;
  return make_decoder(config, {});
}

std::int64_t rounded(std::int64_t elements) { return (elements + kRounding) / 16 * 16; }

TEST(Sizes, BlockKeepsAndParksWhatItsFormulaSays) {
  for (const std::int64_t head_dim : {16, 24, 64}) {
    const std::int64_t q = 6 * head_dim;
    const std::int64_t kv = 2 * head_dim;
    const UnitSizes sizes = model_with(head_dim).sizes(1, kShape, 1);
    EXPECT_EQ(sizes.input, f32(N * D));
    // Both rstd, logsumexp per head, q, k, v, attended, x_mid, gate, up.
    const std::int64_t kept = N * (2 + 6 + q + 2 * kv + q + D + 2 * F);
    EXPECT_GE(sizes.kept, f32(kept));
    EXPECT_LE(sizes.kept, f32(kept + 10 * kRounding));
    // dy, dx_mid, dgate, dup, dq, dk, dv; both norms and their gradients.
    const std::int64_t parked = N * (2 * D + 2 * F + q + 2 * kv) + 4 * D;
    EXPECT_GE(sizes.parked, f32(parked));
    EXPECT_LE(sizes.parked, f32(parked + 11 * kRounding));
  }
}

TEST(Sizes, InBf16EverythingHalvesButWhatIsFp32) {
  const Model model = make_decoder(odd_config(), {.element = core::DType::kBF16});
  const auto near = [](core::Bytes got, std::int64_t bytes, int arrays) {
    EXPECT_GE(got.count(), bytes);
    EXPECT_LE(got.count(), bytes + arrays * 63);
  };
  const UnitSizes block = model.sizes(1, kShape, 1);
  near(block.input, 2 * N * D, 0);
  // fp32: both rstd and logsumexp; the gradients of both norms.
  near(block.kept, 4 * N * (2 + 6) + 2 * N * (2 * 96 + 2 * 32 + D + 2 * F), 10);
  near(block.parked, 2 * (N * (2 * D + 2 * F + 96 + 2 * 32) + 2 * D) + 4 * 2 * D, 11);
  near(model.sizes(0, kShape, 1).parked, 2 * N * D, 0);
  // Logits, the gradient of the normed rows, of the norm, and rstd are fp32; the logits' gradient
  // lies beside them in bf16.
  near(model.sizes(3, kShape, 1).scratch, 4 * N * (V + D + 1) + 4 * D + 2 * N * (V + D), 6);
}

// Attention over 13 keys computes with 16, in arrays of d rounded to 16: forward packs keys and
// values, queries and their sums, scores, 16 partial sums and a shift per query; backward packs
// keys three times with two gradients, queries, dout and dq, two squares, two numbers per query and
// one for each of the group's 3 heads.
TEST(Sizes, BlockScratchIsTheWiderOfTheMlpAndTheHeads) {
  if (kernels::amx_chosen()) GTEST_SKIP() << "attention runs on AMX: see the next test";
  const auto forward = [](std::int64_t d) { return 2 * 16 * d + 16 * (2 * d + 16 + 16 + 1); };
  const auto backward = [](std::int64_t d) { return 5 * 16 * d + 16 * (3 * d + 2 * 16 + 2 + 3); };

  const std::int64_t mlp = rounded(N * D) + rounded(N * F);  // a normed input and a product
  EXPECT_EQ(model_with(16).sizes(1, kShape, 1).scratch, f32(mlp));
  EXPECT_GT(mlp, N * D + forward(16));
  EXPECT_GT(mlp, N * 6 * 16 + backward(16));
  EXPECT_EQ(model_with(64).sizes(1, kShape, 1).scratch, f32(N * 6 * 64 + backward(64)));
  // Each thread takes one of the 2 x 2 key/value heads at a time.
  EXPECT_EQ(model_with(64).sizes(1, kShape, 3).scratch, f32(N * 6 * 64 + 3 * backward(64)));
  EXPECT_EQ(model_with(64).sizes(1, kShape, 9).scratch, f32(N * 6 * 64 + 4 * backward(64)));
  DecoderConfig config = odd_config();
  config.ffn = 8;
  config.heads = 2;
  EXPECT_EQ(make_decoder(config, {}).sizes(1, kShape, 1).scratch, f32(N * D + forward(16)));
}

// On AMX 13 keys are one strip of 32, and so is every 32 of a head: 32 x 32 numbers take 1024
// elements as sums and 1536 as parts. Keys lie packed three times beside two gradients; two blocks
// of two strips of queries in four layouts beside dq and two numbers per query; two jobs of 2 x 2
// strips with scores, gradients of probabilities, and parts three times; one number per query and
// head.
TEST(Sizes, BlockScratchOnAmxHoldsStripsOf32) {
  if (!kernels::amx_chosen()) GTEST_SKIP() << "attention does not run on AMX";
  const auto backward = [](std::int64_t d, std::int64_t heads) {
    const std::int64_t dims = (d + 31) / 32;
    const std::int64_t keys = dims * (3 * 1536 + 2 * 1024);
    const std::int64_t queries = 2 * dims * (4 * 1536 + 1024) + 64 * 2;
    const std::int64_t job = 2 * 2 * (2 * 1024 + 3 * 1536);
    return keys + 2 * queries + 2 * job + heads * 32;
  };
  EXPECT_EQ(model_with(16).sizes(1, kShape, 1).scratch, f32(N * 6 * 16 + backward(16, 3)));
  EXPECT_EQ(model_with(64).sizes(1, kShape, 1).scratch, f32(N * 6 * 64 + backward(64, 3)));
  // Each thread takes one of the 2 x 2 key/value heads at a time.
  EXPECT_EQ(model_with(64).sizes(1, kShape, 3).scratch, f32(N * 6 * 64 + 3 * backward(64, 3)));
}

TEST(Sizes, EmbeddingParksItsGradient) {
  const UnitSizes sizes = model_with(16).sizes(0, kShape, 1);
  EXPECT_EQ(sizes.input, f32(0));
  EXPECT_EQ(sizes.kept, f32(0));
  EXPECT_EQ(sizes.parked, f32(N * D));
  EXPECT_EQ(sizes.scratch, f32(0));
}

TEST(Sizes, HeadNeedsOneChunk) {
  const UnitSizes sizes = model_with(16).sizes(3, kShape, 1);
  EXPECT_EQ(sizes.input, f32(N * D));
  EXPECT_EQ(sizes.kept, f32(0));
  EXPECT_EQ(sizes.parked, f32(0));
  // rstd, normed rows and their gradient, logits; the gradient of the norm.
  EXPECT_EQ(sizes.scratch, f32(rounded(N) + 2 * rounded(N * D) + rounded(N * V) + D));
  DecoderConfig config = odd_config();
  config.vocab = 70001;  // 128 rows at a time
  EXPECT_EQ(make_decoder(config, {}).head->sizes({.batch = 2, .seq_len = 65}).scratch,
            f32(128 + 2 * 128 * D + 128 * 70001 + D));
}

TEST(Flops, FollowFromTheMatrices) {
  const Model model = model_with(24);  // q, attention output: 144 wide, keys and values: 48
  const double per_token = 2.0 * (96 * 144 + 2 * 96 * 48 + 144 * 96 + 3 * 96 * 250);
  const double attention = 4.0 * 144 * 13;
  EXPECT_DOUBLE_EQ(model.units[1]->forward_flops(kShape), 26.0 * (per_token + attention));
  EXPECT_DOUBLE_EQ(model.head->forward_flops(kShape), 26.0 * 2.0 * 96 * 777);
}

}  // namespace
}  // namespace fm::model
