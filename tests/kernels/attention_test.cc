// Attention of one group of heads against loops in fp64: by fused multiply-adds, and on AMX tiles
// where this CPU has them. Work space and arrays end where they must, so that a sanitizer sees one
// element too far; AMX, which no sanitizer build has, meets marks behind its work space.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "kernels/attention/head_group.h"
#include "kernels/attention/paths.h"
#include "kernels/cpu.h"
#include "kernels/gemm/gemm.h"
#include "kernels/variants/variant.h"
#include "tests/kernels/dropout_mask.h"
#include "tests/kernels/random_values.h"

namespace fm::kernels {
namespace {

struct Expected {
  Doubles out, logsumexp, dq, dk, dv;
};

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

double dot(const float* a, const float* b, std::int64_t count) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < count; ++i)
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

struct Problem {
  HeadGroup group;
  std::vector<std::int32_t> starts;  // of documents, by token
  Floats q, k, v, dout;

  explicit Problem(const HeadGroup& at, std::vector<std::int32_t> starts_T = {})
      : group(at), starts(std::move(starts_T)) {
    if (!starts.empty()) group.starts = starts.data();
    q = random_values(at.seq_len * at.q_stride, 1);
    k = random_values(at.seq_len * at.k_stride, 2);
    v = random_values(at.seq_len * at.k_stride, 3);
    dout = random_values(at.seq_len * at.q_stride, 4);
  }
  const float* row(const Floats& of, std::int64_t t, std::int64_t head = 0) const {
    const std::int64_t stride = of.size() == q.size() ? group.q_stride : group.k_stride;
    return of.data() + t * stride + head * group.head_dim;
  }

  // One query: adds its share of the gradients.
  void attend(std::int64_t head, std::int64_t t, Expected& to) const {
    const std::int64_t d = group.head_dim;
    const double scale = group.scale > 0.0F ? static_cast<double>(group.scale)
                                            : 1.0 / std::sqrt(static_cast<double>(d));
    const auto cap = static_cast<double>(group.softcap);
    std::int64_t from = starts.empty() ? 0 : starts[index(t)];
    if (group.window > 0) from = std::max(from, t + 1 - group.window);
    Doubles probs(index(from));  // of what is hidden, 0
    Doubles slopes(index(from));
    double total = 0.0;
    for (std::int64_t j = from; j <= t; ++j) {
      const double score = scale * dot(row(q, t, head), row(k, j), d);
      const double share = cap > 0.0 ? std::tanh(score / cap) : 0.0;
      probs.push_back(std::exp(cap > 0.0 ? cap * share : score));
      slopes.push_back(1.0 - share * share);
      total += probs.back();
    }
    to.logsumexp[index(head * group.seq_len + t)] = std::log(total) / scale;
    const auto kept = [&](std::int64_t j) {  // what dropout leaves of 1
      if (group.dropout.dropped == 0) return 1.0;
      const std::int64_t width = (group.seq_len + 63) / 64 * 64;
      const std::int64_t number = (head * group.seq_len + t) * width + j;
      const std::uint64_t first = group.first_probability;
      const bool stays = stays_in(group.dropout, first + static_cast<std::uint64_t>(number));
      return stays ? static_cast<double>(group.dropout.scale) : 0.0;
    };
    double inner = 0.0;  // sum over keys of prob * dprob
    for (std::int64_t j = from; j <= t; ++j) {
      probs[index(j)] /= total;
      inner += probs[index(j)] * kept(j) * dot(row(dout, t, head), row(v, j), d);
    }
    const std::int64_t at = t * group.q_stride + head * d;
    for (std::int64_t j = from; j <= t; ++j) {
      const double dprob = kept(j) * dot(row(dout, t, head), row(v, j), d);
      const double dscore = probs[index(j)] * (dprob - inner) * slopes[index(j)] * scale;
      const double prob = kept(j) * probs[index(j)];
      for (std::int64_t i = 0; i < d; ++i) {
        const std::int64_t key = j * group.k_stride + i;
        to.out[index(at + i)] += prob * static_cast<double>(v[index(key)]);
        to.dv[index(key)] += prob * static_cast<double>(dout[index(at + i)]);
        to.dq[index(at + i)] += dscore * static_cast<double>(k[index(key)]);
        to.dk[index(key)] += dscore * static_cast<double>(q[index(at + i)]);
      }
    }
  }

  Expected expected() const {
    Expected to{Doubles(q.size()), Doubles(index(group.heads * group.seq_len)), Doubles(q.size()),
                Doubles(k.size()), Doubles(v.size())};
    for (std::int64_t head = 0; head < group.heads; ++head) {
      for (std::int64_t t = 0; t < group.seq_len; ++t) attend(head, t, to);
    }
    return to;
  }
};

struct Attention {
  const char* name;
  decltype(&group_attention_forward) forward;
  decltype(&group_attention_backward) backward;
  decltype(&group_attention_forward_scratch) forward_scratch;
  decltype(&group_attention_backward_scratch) backward_scratch;
};

constexpr Attention kAmx = {"AMX", amx_attention_forward, amx_attention_backward,
                            amx_attention_forward_scratch, amx_attention_backward_scratch};

Attention fused() {
  return {"fused multiply-adds", chosen_variant().group_attention_forward,
          chosen_variant().group_attention_backward,
          [](const HeadGroup& group) { return variant_forward_scratch(group); },
          [](const HeadGroup& group) { return variant_backward_scratch(group); }};
}

// Those that compute a group.
std::vector<Attention> all(const HeadGroup& group = {}) {
  std::vector<Attention> found = {fused()};
  const bool plain = group.dropout.dropped == 0 && group.softcap == 0.0F;
  if (amx_runs_here() && plain) found.push_back(kAmx);
  return found;
}

struct Results {
  Floats out, logsumexp, dq, dk, dv;
};

Results compute(const Attention& by, const Problem& at) {
  const HeadGroup& group = at.group;
  constexpr float kMark = -7.0F;
  constexpr std::int64_t kMarks = 64;
  Results to{Floats(at.q.size(), kMark), Floats(index(group.heads * group.seq_len), NAN),
             Floats(at.q.size(), kMark), Floats(at.k.size(), kMark), Floats(at.v.size(), kMark)};
  const auto with_scratch = [&](std::int64_t elements, const auto& run) {
    const std::int64_t marks = by.forward == kAmx.forward ? kMarks : 0;
    Floats scratch(index(elements), NAN);
    scratch.resize(index(elements + marks), kMark);
    run(scratch.data());
    for (std::int64_t i = 0; i < marks; ++i) EXPECT_EQ(scratch[index(elements + i)], kMark) << i;
  };
  with_scratch(by.forward_scratch(group), [&](float* scratch) {
    by.forward(group, {at.q.data(), at.k.data(), at.v.data(), to.out.data(), to.logsumexp.data()},
               scratch);
  });
  with_scratch(by.backward_scratch(group), [&](float* scratch) {
    by.backward(group,
                {at.q.data(), at.k.data(), at.v.data(), to.out.data(), to.logsumexp.data(),
                 at.dout.data(), to.dq.data(), to.dk.data(), to.dv.data()},
                scratch);
  });
  return to;
}

void expect_formula(const HeadGroup& group, const std::vector<std::int32_t>& starts = {}) {
  const Problem at(group, starts);
  const Expected expected = at.expected();
  for (const Attention& by : all(group)) {
    SCOPED_TRACE(testing::Message() << by.name << " T " << group.seq_len << " heads " << group.heads
                                    << " d " << group.head_dim << " window " << group.window);
    const Results got = compute(by, at);
    constexpr double kTolerance = 4e-6;  // dprob - dot cancels where a query sees two keys
    EXPECT_LT(difference(expected.out, got.out), kTolerance);
    EXPECT_LT(difference(expected.logsumexp, got.logsumexp), kTolerance);
    EXPECT_LT(difference(expected.dq, got.dq), kTolerance);
    EXPECT_LT(difference(expected.dk, got.dk), kTolerance);
    EXPECT_LT(difference(expected.dv, got.dv), kTolerance);
  }
}

TEST(AttentionKernel, EqualsTheFormulaInDouble) {
  for (const std::int64_t seq_len : {1, 2, 7, 8, 17, 32, 33, 64, 65, 130, 140, 200}) {
    for (const std::int64_t heads : {1, 2, 3, 4}) {
      for (const std::int64_t dim : {8, 10, 16, 33, 64, 80}) {
        expect_formula({seq_len, heads, dim, heads * dim, dim});
      }
    }
  }
  // Across blocks of 256 keys, and wide heads.
  for (const std::int64_t seq_len : {257, 300, 577}) expect_formula({seq_len, 2, 64, 128, 64});
  for (const std::int64_t seq_len : {65, 300}) expect_formula({seq_len, 1, 128, 128, 128});
}

// Windows that end inside, at and beyond blocks of keys, and that leave a block's later queries
// nothing of its first keys.
TEST(AttentionKernel, AWindowHidesTheKeysBeforeIt) {
  for (const std::int64_t seq_len : {2, 17, 64, 130, 257, 400}) {
    for (const std::int64_t window : {1, 2, 5, 31, 63, 64, 100, 127, 128, 129, 256, 399}) {
      if (window < seq_len) expect_formula({seq_len, 2, 10, 20, 10, window});
    }
  }
  expect_formula({1000, 1, 64, 64, 64, 130});
}

// Documents of up to `most` tokens.
std::vector<std::int32_t> random_starts(std::int64_t tokens, std::uint32_t most) {
  std::mt19937 bits(most);
  std::vector<std::int32_t> starts;
  while (std::ssize(starts) < tokens) {
    const std::size_t left = index(tokens) - starts.size();
    const std::size_t length = std::min<std::size_t>(left, 1 + bits() % most);
    starts.insert(starts.end(), length, static_cast<std::int32_t>(starts.size()));
  }
  return starts;
}

// Documents of one token, within blocks of queries and keys, and across them.
TEST(AttentionKernel, ADocumentHidesTheKeysBeforeIt) {
  for (const std::int64_t seq_len : {1, 2, 17, 64, 130, 257, 400}) {
    for (const std::uint32_t most : {1U, 2U, 7U, 40U, 90U, 300U}) {
      expect_formula({seq_len, 2, 10, 20, 10}, random_starts(seq_len, most));
      expect_formula({seq_len, 2, 33, 66, 33, 29}, random_starts(seq_len, most));
    }
  }
  for (const std::int32_t second : {1, 31, 32, 33, 63, 64, 127, 128, 129, 255, 256, 257, 640}) {
    std::vector<std::int32_t> starts(700);
    std::fill(starts.begin() + second, starts.end(), second);
    expect_formula({700, 1, 64, 64, 64}, starts);
  }
}

TEST(AttentionKernel, DropoutLeavesOutProbabilities) {
  for (const std::int64_t seq_len : {1, 17, 64, 65, 130, 300}) {
    HeadGroup group{seq_len, 2, 10, 20, 10};
    group.dropout = {.key = 99, .dropped = 1U << 30, .scale = 4.0F / 3.0F};
    group.first_probability = 64 * 1234567;
    expect_formula(group);
    expect_formula(group, random_starts(seq_len, 40));
    group.window = 30;
    expect_formula(group);
  }
}

TEST(AttentionKernel, TheScaleOfScoresIsTheGivenOne) {
  for (const std::int64_t seq_len : {1, 17, 65, 300}) {
    for (const float scale : {0.05F, 0.7F}) {
      HeadGroup group{seq_len, 2, 33, 66, 33};
      group.scale = scale;
      expect_formula(group);
    }
  }
}

// Caps that scores rarely reach, that most of them are near to, and far above.
TEST(AttentionKernel, ASoftcapBoundsScores) {
  for (const std::int64_t seq_len : {1, 2, 17, 64, 65, 130, 300}) {
    for (const float softcap : {50.0F, 2.0F, 0.25F}) {
      HeadGroup group{seq_len, 3, 10, 30, 10};
      group.softcap = softcap;
      expect_formula(group);
      group.scale = 0.6F;
      expect_formula(group, random_starts(seq_len, 40));
      group.window = 30;
      expect_formula(group);
      group.dropout = {.key = 99, .dropped = 1U << 30, .scale = 4.0F / 3.0F};
      group.first_probability = 64 * 1234567;
      expect_formula(group, random_starts(seq_len, 90));
    }
  }
  HeadGroup group{577, 2, 64, 128, 64};
  group.softcap = 1.5F;
  expect_formula(group);
}

// tanh(x) is x where x is small: a softcap far above all scores is none.
TEST(AttentionKernel, AHugeSoftcapIsNone) {
  const Problem plain({100, 2, 24, 48, 24});
  Problem capped = plain;
  capped.group.softcap = 1e6F;
  const Results expected = compute(fused(), plain);
  const Results got = compute(fused(), capped);
  EXPECT_LT(difference(to_double(expected.out), got.out), 2e-6);
  EXPECT_LT(difference(to_double(expected.logsumexp), got.logsumexp), 2e-6);
  EXPECT_LT(difference(to_double(expected.dk), got.dk), 2e-6);
}

TEST(AttentionKernel, HiddenKeysChangeNoBit) {
  std::vector<std::int32_t> starts(300);
  std::fill(starts.begin() + 219, starts.end(), 200);
  for (const bool by_window : {false, true}) {
    for (const Attention& by : all()) {
      Problem at({300, 1, 16, 16, 16, by_window ? 20 : 0}, by_window ? decltype(starts){} : starts);
      const Results before = compute(by, at);
      for (std::size_t i = 0; i < 16 * 200; ++i) at.k[i] = at.v[i] = 1e6F;
      const Results after = compute(by, at);
      for (std::size_t i = 16 * 219; i < before.out.size(); ++i) {
        ASSERT_EQ(before.out[i], after.out[i]) << by.name;
        ASSERT_EQ(before.dq[i], after.dq[i]) << by.name;
      }
    }
  }
}

double root_mean_square(const Doubles& expected, const Floats& got) {
  double error = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    error += std::pow(expected[i] - static_cast<double>(got[i]), 2);
  }
  return std::sqrt(error / static_cast<double>(got.size()));
}

TEST(AttentionKernel, AmxIsAtLeastAsAccurateAsFusedMultiplyAdds) {
  if (!amx_runs_here()) GTEST_SKIP() << "this CPU has no AMX";
  for (const std::int64_t dim : {33, 64, 128}) {
    SCOPED_TRACE(dim);
    const Problem at({500, 2, dim, 2 * dim, dim});
    const Expected expected = at.expected();
    const Results amx = compute(kAmx, at);
    const Results other = compute(fused(), at);
    EXPECT_LE(root_mean_square(expected.out, amx.out), root_mean_square(expected.out, other.out));
    // Of a logarithm that both take alike, most of its error.
    EXPECT_LE(root_mean_square(expected.logsumexp, amx.logsumexp),
              1.1 * root_mean_square(expected.logsumexp, other.logsumexp));
    EXPECT_LE(root_mean_square(expected.dq, amx.dq), root_mean_square(expected.dq, other.dq));
    EXPECT_LE(root_mean_square(expected.dk, amx.dk), root_mean_square(expected.dk, other.dk));
    EXPECT_LE(root_mean_square(expected.dv, amx.dv), root_mean_square(expected.dv, other.dv));
  }
}

// The group is a part of wider arrays; the rest stays as it was.
TEST(AttentionKernel, WritesItsHeadsOnly) {
  const Problem at({.seq_len = 21, .heads = 2, .head_dim = 24, .q_stride = 72, .k_stride = 40});
  for (const Attention& by : all()) {
    SCOPED_TRACE(by.name);
    const Results got = compute(by, at);
    for (std::int64_t t = 0; t < at.group.seq_len; ++t) {
      for (std::int64_t i = 48; i < 72; ++i) {
        ASSERT_EQ(got.out[index(t * 72 + i)], -7.0F);
        ASSERT_EQ(got.dq[index(t * 72 + i)], -7.0F);
      }
      for (std::int64_t i = 24; i < 40; ++i) {
        ASSERT_EQ(got.dk[index(t * 40 + i)], -7.0F);
        ASSERT_EQ(got.dv[index(t * 40 + i)], -7.0F);
      }
    }
  }
}

bool all_finite(const float* values, std::int64_t count) {
  return std::all_of(values, values + count, [](float value) { return std::isfinite(value); });
}

TEST(AttentionKernel, WhatIsNotFiniteStaysSo) {
  constexpr std::int64_t kTokens = 300;
  constexpr std::int64_t kDim = 40;
  constexpr std::int64_t kBad = 150;
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    for (Floats Problem::*input : {&Problem::q, &Problem::k, &Problem::v, &Problem::dout}) {
      Problem at({kTokens, 1, kDim, kDim, kDim});
      (at.*input)[index(kBad * kDim + 3)] = bad;
      for (const Attention& by : all()) {
        // A score of minus infinity is one that a query rightly ignores.
        const bool ignored = std::isinf(bad) && input == &Problem::k && by.forward != kAmx.forward;
        if (ignored) continue;
        SCOPED_TRACE(testing::Message() << by.name << ' ' << bad);
        const Results got = compute(by, at);
        const auto row = [](const Floats& of, std::int64_t t) { return of.data() + t * kDim; };
        if (input != &Problem::dout) {
          EXPECT_FALSE(all_finite(row(got.out, kBad), kDim));
        }
        EXPECT_FALSE(all_finite(row(got.dq, kBad), kDim));
        EXPECT_FALSE(all_finite(got.dk.data(), kTokens * kDim));
        // Before the block of queries that holds it, nothing sees it.
        EXPECT_TRUE(all_finite(got.out.data(), 128 * kDim));
        EXPECT_TRUE(all_finite(got.dq.data(), 128 * kDim));
      }
    }
  }
}

TEST(AttentionKernel, WorkSpaceGrowsWithTheSequenceNotItsSquare) {
  const auto group = [](std::int64_t seq_len) { return HeadGroup{seq_len, 4, 64, 256, 64}; };
  for (const std::int64_t seq_len : {1024, 65536}) {
    const std::int64_t keys_and_values = 2 * seq_len * 64;
    EXPECT_LT(variant_forward_scratch(group(seq_len)), keys_and_values + (1 << 16));
    EXPECT_LT(variant_backward_scratch(group(seq_len)), 4 * seq_len + (1 << 17));
    if (!amx_runs_here()) continue;  // three halves of an element per element
    EXPECT_LT(amx_attention_forward_scratch(group(seq_len)), keys_and_values * 3 / 2 + (1 << 17));
    EXPECT_LT(amx_attention_backward_scratch(group(seq_len)), 4 * seq_len + (1 << 18) + (1 << 17));
  }
}

void expect_announced(const HeadGroup& group, const Attention& chosen) {
  EXPECT_EQ(group_attention_forward_scratch(group), chosen.forward_scratch(group));
  EXPECT_EQ(group_attention_backward_scratch(group), chosen.backward_scratch(group));
  const Problem at(group);
  const Results expected = compute(chosen, at);
  const Results got = compute({"what computes", group_attention_forward, group_attention_backward,
                               group_attention_forward_scratch, group_attention_backward_scratch},
                              at);
  EXPECT_EQ(got.out, expected.out);
  EXPECT_EQ(got.dq, expected.dq);
  EXPECT_EQ(got.dk, expected.dk);
}
TEST(AttentionKernel, TheAnnouncedWorkSpaceIsThatOfWhatComputes) {
  HeadGroup group{300, 2, 40, 80, 40};
  expect_announced(group, amx_chosen() ? kAmx : fused());
  group.softcap = 3.0F;
  expect_announced(group, fused());
}

}  // namespace
}  // namespace fm::kernels
