// Attention over ranks against attention of the whole row by one, which attention_test compares
// with autograd.
#include "model/attention/context_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

#include "comm/meet/world.h"
#include "core/element.h"
#include "core/sequence_part.h"
#include "kernels/threads.h"
#include "model/attention/head_exchange.h"

namespace fm::model {
namespace {

template <class T>
using Values = std::vector<T>;

template <class T>
Values<T> random_values(std::int64_t count, std::uint32_t seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> normal;
  Values<T> values(static_cast<std::size_t>(count));
  for (T& value : values) value = core::to_element<T>(normal(bits));
  return values;
}

core::Work work_in(std::vector<std::byte>& memory, core::Bytes bytes) {
  memory.assign(static_cast<std::size_t>(bytes.count()) + 64, std::byte{0xFF});
  void* base = memory.data();
  std::size_t space = memory.size();
  std::align(64, static_cast<std::size_t>(bytes.count()), base, space);
  return {core::Arena({static_cast<std::byte*>(base), static_cast<std::size_t>(bytes.count())}),
          kernels::kernel_threads()};
}

// out, dq [B, T, heads, d]; dk, dv [B, T, kv_heads, d].
template <class T>
struct Results {
  Values<T> out, dq, dk, dv;
};

// Of whole rows.
template <class T>
struct Inputs {
  Values<T> q, k, v, dout;
};

template <class T>
Inputs<T> random_inputs(const kernels::AttentionShape& shape) {
  const std::int64_t q = shape.batch.tokens() * shape.heads * shape.head_dim;
  const std::int64_t k = shape.batch.tokens() * shape.kv_heads * shape.head_dim;
  return {random_values<T>(q, 1), random_values<T>(k, 2), random_values<T>(k, 3),
          random_values<T>(q, 4)};
}

// What a rank of the group, or one alone, has of a row.
struct Part {
  core::TokenRuns runs;
  std::int64_t row, count;
};

// [B, row, width] -> [B, count, width], or back.
template <class T>
void move_part(const Part& part, std::int64_t width, Values<T>& whole, Values<T>& own, bool back) {
  const std::int64_t batch = std::ssize(whole) / (part.row * width);
  own.resize(static_cast<std::size_t>(batch * part.count * width));
  auto at = own.begin();
  for (std::int64_t b = 0; b < batch; ++b) {
    for (const core::TokenRun& run : part.runs) {
      const auto from = whole.begin() + (b * part.row + run.first) * width;
      if (back) {
        std::copy_n(at, run.count * width, from);
      } else {
        std::copy_n(from, run.count * width, at);
      }
      at += run.count * width;
    }
  }
}

template <class T>
Values<T> part_of(const Part& part, std::int64_t width, Values<T> whole) {
  Values<T> own;
  move_part(part, width, whole, own, false);
  return own;
}

// Forward and backward of the part of `whole` (batch: B x T) that `part` says.
template <class T>
void run(const kernels::AttentionShape& whole, const Inputs<T>& inputs,
         const core::SequenceSplit& split, const Part& part, const Peers& peers,
         Results<T>& results, std::mutex& mutex) {
  kernels::AttentionShape shape = whole;
  shape.batch = {whole.batch.batch, part.count, split};
  const std::int64_t q_width = whole.heads * whole.head_dim;
  const std::int64_t k_width = whole.kv_heads * whole.head_dim;
  Values<T> q = part_of(part, q_width, inputs.q);
  Values<T> k = part_of(part, k_width, inputs.k);
  Values<T> v = part_of(part, k_width, inputs.v);
  const Values<T> dout = part_of(part, q_width, inputs.dout);
  Results<T> own{q, q, k, k};
  const AttentionKept kept = attention_kept(shape);
  q.resize(static_cast<std::size_t>(kept.q));
  k.resize(static_cast<std::size_t>(kept.k));
  v.resize(static_cast<std::size_t>(kept.k));
  Values<float> logsumexp(static_cast<std::size_t>(kept.logsumexp));
  const kernels::AttentionScratch scratch = context_scratch<T>(shape, kernels::kernel_threads());
  std::vector<std::byte> memory;
  core::Work forward = work_in(memory, scratch.forward);
  context_forward<T>(shape, {q.data(), k.data(), v.data(), own.out.data(), logsumexp.data()},
                     {peers, shape.starts_BT}, forward);
  core::Work backward = work_in(memory, scratch.backward);
  context_backward<T>(shape,
                      {q.data(), k.data(), v.data(), own.out.data(), logsumexp.data(), dout.data(),
                       own.dq.data(), own.dk.data(), own.dv.data()},
                      {peers, shape.starts_BT}, backward);
  const std::scoped_lock lock(mutex);
  move_part(part, q_width, results.out, own.out, true);
  move_part(part, q_width, results.dq, own.dq, true);
  move_part(part, k_width, results.dk, own.dk, true);
  move_part(part, k_width, results.dv, own.dv, true);
}

template <class T>
Results<T> attend(const kernels::AttentionShape& shape, const Inputs<T>& inputs,
                  const core::SequenceSplit& split) {
  Results<T> results{inputs.q, inputs.q, inputs.k, inputs.k};
  std::mutex mutex;
  const std::int64_t row = shape.batch.seq_len;
  if (split.ranks() == 1) {
    run<T>(shape, inputs, split, {{core::TokenRun{0, row}}, row, row}, {}, results, mutex);
    return results;
  }
  comm::run_ranks(split.ranks(), [&](comm::Communicator& world) {
    std::vector<int> heads;
    std::vector<int> ring;
    for (int rank = 0; rank < split.ranks(); ++rank) {
      if (rank / split.ulysses == world.rank() / split.ulysses) heads.push_back(rank);
      if (rank % split.ulysses == world.rank() % split.ulysses) ring.push_back(rank);
    }
    const auto exchange = world.split(heads);
    const auto around = world.split(ring);
    const Part part{core::runs_of_rank(row, split, world.rank()), row, row / split.ranks()};
    run<T>(shape, inputs, split, part, {.ulysses = exchange.get(), .ring = around.get()}, results,
           mutex);
  });
  return results;
}

template <class T>
Results<T> attend(const kernels::AttentionShape& shape, const core::SequenceSplit& split) {
  return attend(shape, random_inputs<T>(shape), split);
}

template <class T>
bool same_bits(const Values<T>& a, const Values<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

// Of the largest magnitude.
template <class T>
double gap(const Values<T>& expected, const Values<T>& got) {
  double largest = 1e-30;
  double difference = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double value = core::to_float(expected[i]);
    largest = std::max(largest, std::abs(value));
    difference = std::max(difference, std::abs(value - core::to_float(got[i])));
    if (std::isnan(core::to_float(got[i]))) return NAN;
  }
  return difference / largest;
}

template <class T>
void expect_near(const Results<T>& whole, const Results<T>& parts, double most) {
  EXPECT_LT(gap(whole.out, parts.out), most);
  EXPECT_LT(gap(whole.dq, parts.dq), most);
  EXPECT_LT(gap(whole.dk, parts.dk), most);
  EXPECT_LT(gap(whole.dv, parts.dv), most);
}

// Two rows; documents of the first begin at 0, 5 and T / 2 + 3, of the second at 0 and T - 1.
std::vector<std::int32_t> documents(std::int64_t row) {
  std::vector<std::int32_t> starts(static_cast<std::size_t>(2 * row), 0);
  const auto begin = [&](std::int64_t b, std::int64_t at) {
    std::fill(starts.begin() + b * row + at, starts.begin() + (b + 1) * row,
              static_cast<std::int32_t>(at));
  };
  begin(0, 5);
  begin(0, row / 2 + 3);
  begin(1, row - 1);
  return starts;
}

constexpr kernels::Dropout kDrop{.key = 77, .dropped = 1U << 30, .scale = 4.0F / 3.0F};

TEST(DealHeads, UnevenHeadsGoToTheFirstRanks) {
  EXPECT_EQ(deal_heads(7, 7, 4).q, (HeadLists{{0, 1}, {2, 3}, {4, 5}, {6}}));
  EXPECT_EQ(deal_heads(7, 7, 4).kv, deal_heads(7, 7, 4).q);
}

TEST(DealHeads, SharedKeysGoWithTheirQueries) {
  EXPECT_EQ(deal_heads(8, 4, 2).kv, (HeadLists{{0, 1}, {2, 3}}));
  EXPECT_EQ(deal_heads(8, 2, 4).kv, (HeadLists{{0}, {0}, {1}, {1}}));  // on two ranks each
  EXPECT_EQ(deal_heads(6, 2, 4).q, (HeadLists{{0, 1}, {2, 3}, {4}, {5}}));
  EXPECT_EQ(deal_heads(6, 2, 4).kv, (HeadLists{{0}, {0, 1}, {1}, {1}}));
}

// A head's numbers depend on nothing else, so they are the same bits; gradients of keys whose
// queries are on several ranks are added up in another order.
TEST(UlyssesAttention, HasTheBitsOfOneRank) {
  struct Case {
    std::int64_t heads, kv_heads;
    int ranks;
    bool shared;
  };
  for (const Case& at : {Case{4, 4, 2, false}, Case{4, 2, 2, false}, Case{7, 7, 4, false},
                         Case{4, 2, 4, true}, Case{4, 1, 2, true}, Case{6, 2, 4, true}}) {
    SCOPED_TRACE(testing::Message()
                 << at.heads << " heads, " << at.kv_heads << " kv, " << at.ranks);
    const std::vector<std::int32_t> starts = documents(72);
    kernels::AttentionShape shape{{2, 72}, at.heads, at.kv_heads, 16};
    for (const std::int64_t window : {0, 11}) {
      for (const bool apart : {false, true}) {
        shape.window = window;
        shape.starts_BT = apart ? starts.data() : nullptr;
        shape.dropout = apart ? kDrop : kernels::Dropout{};
        shape.softcap = apart ? 3.0F : 0.0F;
        shape.first_sample = 3;
        const auto whole = attend<float>(shape, {});
        const auto parts = attend<float>(shape, {.ulysses = at.ranks});
        EXPECT_TRUE(same_bits(whole.out, parts.out));
        EXPECT_TRUE(same_bits(whole.dq, parts.dq));
        if (!at.shared) {
          EXPECT_TRUE(same_bits(whole.dk, parts.dk));
          EXPECT_TRUE(same_bits(whole.dv, parts.dv));
        }
        expect_near(whole, parts, 4e-6);
      }
    }
  }
}

TEST(UlyssesAttention, HasTheBitsOfOneRankInBf16) {
  const kernels::AttentionShape shape{{1, 40}, 4, 4, 16};
  const auto whole = attend<core::Bf16>(shape, {});
  const auto parts = attend<core::Bf16>(shape, {.ulysses = 4});
  EXPECT_TRUE(same_bits(whole.out, parts.out));
  EXPECT_TRUE(same_bits(whole.dq, parts.dq));
  EXPECT_TRUE(same_bits(whole.dk, parts.dk));
  EXPECT_TRUE(same_bits(whole.dv, parts.dv));
}

// Chunks of 9 to 150 tokens, on both sides of the blocks of 64 queries and 128 keys.
TEST(RingAttention, IsThatOfOneRank) {
  struct Case {
    std::int64_t heads, kv_heads, row, window;
    core::SequenceSplit split;
    bool apart, drops;
  };
  for (const Case& at :
       {Case{2, 2, 36, 0, {.ring = 2}, false, false}, Case{4, 2, 600, 0, {.ring = 2}, false, false},
        Case{4, 1, 560, 0, {.ring = 4}, false, false},
        Case{2, 1, 600, 100, {.ring = 2}, false, false},
        Case{2, 1, 600, 7, {.ring = 2}, false, false},
        Case{2, 1, 600, 250, {.ring = 3}, true, false}, Case{2, 2, 84, 0, {.ring = 3}, false, true},
        Case{4, 2, 304, 0, {.ring = 4}, true, true},
        Case{4, 2, 272, 0, {.ulysses = 2, .ring = 2}, false, false},
        Case{4, 1, 288, 50, {.ulysses = 3, .ring = 2}, true, true}}) {
    SCOPED_TRACE(testing::Message() << "T " << at.row << ", window " << at.window << ", ring "
                                    << at.split.ring << " x " << at.split.ulysses);
    const std::vector<std::int32_t> starts = documents(at.row);
    kernels::AttentionShape shape{{2, at.row}, at.heads, at.kv_heads, 16};
    shape.window = at.window;
    shape.starts_BT = at.apart ? starts.data() : nullptr;
    shape.dropout = at.drops ? kDrop : kernels::Dropout{};
    shape.first_sample = 5;
    expect_near(attend<float>(shape, {}), attend<float>(shape, at.split), 8e-6);
    shape.scale = 0.5F;
    shape.softcap = 2.0F;
    expect_near(attend<float>(shape, {}), attend<float>(shape, at.split), 8e-6);
  }
}

TEST(RingAttention, MergesNarrowTypesInFp32) {
  const kernels::AttentionShape shape{{1, 320}, 4, 2, 16};
  expect_near(attend<core::Bf16>(shape, {}), attend<core::Bf16>(shape, {.ring = 4}), 0.005);
}

// Scores of 0 and a window of two: the mean of a token's values and of those before it. A window of
// one: the token's own values, and the gradient of values is that of the output.
TEST(RingAttention, IsExactWhereProbabilitiesAreHalvesAndOnes) {
  kernels::AttentionShape shape{{1, 48}, 2, 2, 16};
  Inputs<float> inputs = random_inputs<float>(shape);
  std::ranges::fill(inputs.q, 0.0F);
  for (float& value : inputs.v) value = std::round(8.0F * value) + 0.0F;  // no -0
  for (const core::SequenceSplit split :
       {core::SequenceSplit{.ring = 3}, core::SequenceSplit{.ulysses = 2},
        core::SequenceSplit{.ulysses = 2, .ring = 2}}) {
    shape.window = 2;
    Values<float> means = inputs.v;
    const std::size_t width = 32;
    for (std::size_t i = width; i < means.size(); ++i) {
      means[i] = (inputs.v[i] + inputs.v[i - width]) / 2.0F;
    }
    EXPECT_TRUE(same_bits(attend(shape, inputs, split).out, means));
    shape.window = 1;
    const Results<float> own = attend(shape, inputs, split);
    EXPECT_TRUE(same_bits(own.out, inputs.v));
    EXPECT_TRUE(same_bits(own.dv, inputs.dout));
  }
}

}  // namespace
}  // namespace fm::model
