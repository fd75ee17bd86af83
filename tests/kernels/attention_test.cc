// Attention of one group of heads against loops in fp64. Work space and arrays end where they must,
// so that a sanitizer sees one element too far.
#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <cmath>

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
  Floats q, k, v, dout;

  explicit Problem(const HeadGroup& at) : group(at) {
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
    const double scale = 1.0 / std::sqrt(static_cast<double>(d));
    Doubles probs;
    double total = 0.0;
    for (std::int64_t j = 0; j <= t; ++j) {
      probs.push_back(std::exp(scale * dot(row(q, t, head), row(k, j), d)));
      total += probs.back();
    }
    to.logsumexp[index(head * group.seq_len + t)] = std::log(total) / scale;
    double inner = 0.0;  // sum over keys of prob * dprob
    for (std::int64_t j = 0; j <= t; ++j) {
      probs[index(j)] /= total;
      inner += probs[index(j)] * dot(row(dout, t, head), row(v, j), d);
    }
    const std::int64_t at = t * group.q_stride + head * d;
    for (std::int64_t j = 0; j <= t; ++j) {
      const double prob = probs[index(j)];
      const double dscore = prob * (dot(row(dout, t, head), row(v, j), d) - inner) * scale;
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

void expect_formula(const HeadGroup& group) {
  const Problem at(group);
  const Expected expected = at.expected();
  Floats out(at.q.size()), dq(at.q.size()), dk(at.k.size()), dv(at.k.size());
  Floats logsumexp(expected.logsumexp.size());
  Floats scratch(index(attention_forward_scratch(group)), NAN);
  attention_forward(group, {at.q.data(), at.k.data(), at.v.data(), out.data(), logsumexp.data()},
                    scratch.data());
  scratch.assign(index(attention_backward_scratch(group)), NAN);
  attention_backward(group,
                     {at.q.data(), at.k.data(), at.v.data(), out.data(), logsumexp.data(),
                      at.dout.data(), dq.data(), dk.data(), dv.data()},
                     scratch.data());
  constexpr double kTolerance = 3e-6;
  EXPECT_LT(difference(expected.out, out), kTolerance);
  EXPECT_LT(difference(expected.logsumexp, logsumexp), kTolerance);
  EXPECT_LT(difference(expected.dq, dq), kTolerance);
  EXPECT_LT(difference(expected.dk, dk), kTolerance);
  EXPECT_LT(difference(expected.dv, dv), kTolerance);
}

TEST(AttentionKernel, EqualsTheFormulaInDouble) {
  for (const std::int64_t seq_len : {1, 2, 8, 17, 65, 140, 200}) {
    for (const std::int64_t heads : {1, 3}) {
      for (const std::int64_t dim : {10, 16, 80}) {
        SCOPED_TRACE(testing::Message() << "T " << seq_len << " heads " << heads << " d " << dim);
        expect_formula({seq_len, heads, dim, heads * dim, dim});
      }
    }
  }
}

// The group is a part of wider arrays; the rest stays as it was.
TEST(AttentionKernel, WritesItsHeadsOnly) {
  const HeadGroup group{.seq_len = 21, .heads = 2, .head_dim = 24, .q_stride = 72, .k_stride = 40};
  const Problem at(group);
  Floats out(at.q.size(), -7.0F), dq(out), dk(at.k.size(), -7.0F), dv(dk), logsumexp(42);
  Floats scratch(
      index(std::max(attention_forward_scratch(group), attention_backward_scratch(group))));
  attention_forward(group, {at.q.data(), at.k.data(), at.v.data(), out.data(), logsumexp.data()},
                    scratch.data());
  attention_backward(group,
                     {at.q.data(), at.k.data(), at.v.data(), out.data(), logsumexp.data(),
                      at.dout.data(), dq.data(), dk.data(), dv.data()},
                     scratch.data());
  for (std::int64_t t = 0; t < group.seq_len; ++t) {
    for (std::int64_t i = 48; i < 72; ++i) {
      ASSERT_EQ(out[index(t * 72 + i)], -7.0F);
      ASSERT_EQ(dq[index(t * 72 + i)], -7.0F);
    }
    for (std::int64_t i = 24; i < 40; ++i) {
      ASSERT_EQ(dk[index(t * 40 + i)], -7.0F);
      ASSERT_EQ(dv[index(t * 40 + i)], -7.0F);
    }
  }
}

TEST(AttentionKernel, WorkSpaceGrowsWithTheSequenceNotItsSquare) {
  const auto group = [](std::int64_t seq_len) { return HeadGroup{seq_len, 4, 64, 256, 64}; };
  for (const std::int64_t seq_len : {1024, 65536}) {
    const std::int64_t keys_and_values = 2 * seq_len * 64;
    EXPECT_LT(attention_forward_scratch(group(seq_len)), keys_and_values + (1 << 16));
    EXPECT_LT(attention_backward_scratch(group(seq_len)), 4 * seq_len + (1 << 17));
  }
}

}  // namespace
}  // namespace fm::kernels
