#include "device/cuda/card_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <span>

#include "core/check.h"
#include "core/element.h"
#include "tests/cuda/fake_attention.h"

namespace fm::device::cuda {
namespace {

using core::Bf16;

constexpr std::int64_t kRows = 2;
constexpr std::int64_t kTokens = 96;
constexpr std::int64_t kHeads = 8;
constexpr std::int64_t kKvHeads = 4;
constexpr std::int64_t kDim = 16;

kernels::AttentionShape shape_of_all() {
  kernels::AttentionShape shape;
  shape.batch = {kRows, kTokens};
  shape.heads = kHeads;
  shape.kv_heads = kKvHeads;
  shape.head_dim = kDim;
  shape.window = 40;
  return shape;
}

class Rows {
 public:
  Rows(std::int64_t heads, unsigned seed) : numbers_(std::size_t(kRows * kTokens * heads * kDim)) {
    std::mt19937 random(seed);
    for (Bf16& number : numbers_) {
      number = core::to_bf16(static_cast<float>(random() % 2001) / 1000.0F - 1.0F);
    }
  }
  Bf16* data() { return numbers_.data(); }
  std::vector<std::uint16_t> bits() const {
    std::vector<std::uint16_t> bits;
    for (const Bf16 number : numbers_) bits.push_back(number.bits);
    return bits;
  }

 private:
  std::vector<Bf16> numbers_;
};

// A call's arrays.
struct Arrays {
  Rows q{kHeads, 1}, k{kKvHeads, 2}, v{kKvHeads, 3}, dout{kHeads, 4};
  Rows out{kHeads, 5}, dq{kHeads, 6}, dk{kKvHeads, 7}, dv{kKvHeads, 8};
  std::vector<float> logsumexp = std::vector<float>(std::size_t(kRows * kTokens * kHeads));

  kernels::AttentionForward<Bf16> forward() {
    return {q.data(), k.data(), v.data(), out.data(), logsumexp.data()};
  }
  kernels::AttentionBackward<Bf16> backward() {
    return {q.data(),    k.data(),  v.data(),  out.data(), logsumexp.data(),
            dout.data(), dq.data(), dk.data(), dv.data()};
  }
};

struct Card {
  FakeAttention* library;
  CardAttention attention;
  std::vector<std::string> warnings;

  explicit Card(core::Bytes space)
      : library(new FakeAttention),
        attention(std::unique_ptr<AttentionLibrary>(library),
                  {.architecture = 90, .workspace = {nullptr, space}, .warn = [this](auto& text) {
                     warnings.push_back(text);
                   }}) {}
};

// The kernels' bits do not depend on which rows and heads are computed at once.
void expect_the_kernels_bits(Card& card) {
  const kernels::AttentionShape shape = shape_of_all();
  const kernels::AttentionScratch scratch = kernels::attention_scratch<Bf16>(shape, 1);
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> memory(
      std::size_t(std::max(scratch.forward, scratch.backward).count()) / sizeof(Line) + 1);
  core::Work work{.arena = core::Arena(std::as_writable_bytes(std::span(memory)))};
  Arrays expected;
  // A piece's sums have another unit, so that those that the backward pass reads are rounded twice.
  kernels::attention_forward<Bf16>(work, shape, expected.forward());
  const float scale = 1.0F / std::sqrt(static_cast<float>(kDim));
  for (float& sum : expected.logsumexp) sum = sum * scale / scale;
  kernels::attention_backward<Bf16>(work, shape, expected.backward());

  Arrays got;
  ASSERT_TRUE(card.attention.forward(nullptr, shape, got.forward()));
  ASSERT_TRUE(card.attention.backward(nullptr, shape, got.backward()));
  EXPECT_EQ(got.out.bits(), expected.out.bits());
  EXPECT_EQ(got.dq.bits(), expected.dq.bits());
  EXPECT_EQ(got.dk.bits(), expected.dk.bits());
  EXPECT_EQ(got.dv.bits(), expected.dv.bits());
  EXPECT_NE(got.dq.bits(), Arrays().dq.bits());
}

core::Bytes space_of(std::int64_t rows, std::int64_t kv_heads) {
  return attention_workspace({.backward = true,
                              .rows = rows,
                              .tokens = kTokens,
                              .heads = kv_heads * kHeads / kKvHeads,
                              .kv_heads = kv_heads,
                              .head_dim = kDim},
                             90);
}

TEST(CardAttention, ComputesTheSameInWholeBatchesRowsAndGroupsOfHeads) {
  const struct {
    std::int64_t rows, kv_heads;
    std::size_t calls;  // of the backward pass
  } cases[] = {{kRows, kKvHeads, 1}, {1, kKvHeads, 2}, {1, 2, 4}, {1, 1, 8}};
  for (const auto& each : cases) {
    SCOPED_TRACE(each.calls);
    Card card(space_of(each.rows, each.kv_heads));
    expect_the_kernels_bits(card);
    EXPECT_EQ(card.library->ran.size(), 1 + each.calls);
    EXPECT_EQ(card.library->prepared.size(), 2U);
    EXPECT_TRUE(card.warnings.empty());
  }
}

TEST(CardAttention, LeavesToOurKernelsWhatTheLibraryDoesNotDo) {
  Arrays arrays;
  const kernels::AttentionShape shape = shape_of_all();
  {
    Card card(space_of(1, 1));
    card.library->refuses = [](const AttentionPiece& piece) { return piece.backward; };
    EXPECT_FALSE(card.attention.forward(nullptr, shape, arrays.forward()));
    EXPECT_FALSE(card.attention.backward(nullptr, shape, arrays.backward()));
    EXPECT_TRUE(card.library->ran.empty());
    ASSERT_EQ(card.warnings.size(), 1U);
    EXPECT_EQ(card.warnings[0],
              "a fake library does not do attention of 96 tokens, 2 heads of 16, backward (it is "
              "told to refuse); our own kernels do, at about half the speed");
  }
  {
    Card card(space_of(1, 1));
    card.library->wants = space_of(1, 1) + core::Bytes(1);
    EXPECT_FALSE(card.attention.forward(nullptr, shape, arrays.forward()));
    ASSERT_EQ(card.warnings.size(), 1U);
    EXPECT_NE(card.warnings[0].find("it wants "), std::string::npos) << card.warnings[0];
  }
  Card card(space_of(1, 1));
  kernels::AttentionShape dropped = shape;
  dropped.dropout.dropped = 7;
  EXPECT_FALSE(card.attention.forward(nullptr, dropped, arrays.forward()));
  EXPECT_TRUE(card.library->prepared.empty());
  EXPECT_TRUE(card.warnings.empty());
}

TEST(CardAttention, RefusesRowsThatAreNotAligned) {
  Card card(space_of(kRows, kKvHeads));
  Arrays arrays;
  kernels::AttentionForward<Bf16> forward = arrays.forward();
  forward.k += 1;
  EXPECT_THROW(card.attention.forward(nullptr, shape_of_all(), forward), core::BugError);
}

}  // namespace
}  // namespace fm::device::cuda
