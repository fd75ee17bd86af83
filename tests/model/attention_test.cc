// Attention forward against three loops in fp64; its gradients are covered by units_test.cc.
#include "model/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <thread>
#include <vector>

#include "kernels/gemm.h"

namespace fm::model {
namespace {

using Floats = std::vector<float>;

Floats random_values(std::int64_t count, std::uint32_t seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> normal;
  Floats values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(bits);
  return values;
}

struct Problem {
  AttentionShape shape;
  Floats q, k, v, out, logsumexp;

  explicit Problem(const AttentionShape& at) : shape(at) {
    const std::int64_t tokens = at.batch.tokens();
    q = random_values(tokens * at.heads * at.head_dim, 1);
    k = random_values(tokens * at.kv_heads * at.head_dim, 2);
    v = random_values(tokens * at.kv_heads * at.head_dim, 3);
    out.resize(q.size());
    logsumexp.resize(static_cast<std::size_t>(tokens * at.heads));
  }
  void forward() {
    attention_forward(shape, {q.data(), k.data(), v.data(), out.data(), logsumexp.data()});
  }
  const float* q_at(std::int64_t token, std::int64_t head) const {
    return q.data() + (token * shape.heads + head) * shape.head_dim;
  }
  const float* kv_at(const Floats& from, std::int64_t token, std::int64_t head) const {
    const std::int64_t kv_head = head / (shape.heads / shape.kv_heads);
    return from.data() + (token * shape.kv_heads + kv_head) * shape.head_dim;
  }
  // Output element in fp64.
  double expected(std::int64_t row, std::int64_t t, std::int64_t head, std::int64_t i) const {
    const std::int64_t first = row * shape.batch.seq_len;
    double total = 0.0;
    double value = 0.0;
    for (std::int64_t past = 0; past <= t; ++past) {
      double score = 0.0;
      for (std::int64_t d = 0; d < shape.head_dim; ++d) {
        score += static_cast<double>(q_at(first + t, head)[d]) *
                 static_cast<double>(kv_at(k, first + past, head)[d]);
      }
      const double weight = std::exp(score / std::sqrt(static_cast<double>(shape.head_dim)));
      total += weight;
      value += weight * static_cast<double>(kv_at(v, first + past, head)[i]);
    }
    return value / total;
  }
};

TEST(Attention, EqualsTheFormulaInDoubleForAnyGrouping) {
  for (const std::int64_t kv_heads : {1, 2, 3, 6}) {
    Problem at({.batch = {2, 11}, .heads = 6, .kv_heads = kv_heads, .head_dim = 10});
    at.forward();
    std::size_t index = 0;
    for (std::int64_t row = 0; row < 2; ++row) {
      for (std::int64_t t = 0; t < 11; ++t) {
        for (std::int64_t head = 0; head < 6; ++head) {
          for (std::int64_t i = 0; i < 10; ++i) {
            ASSERT_NEAR(static_cast<double>(at.out[index++]), at.expected(row, t, head, i), 2e-6)
                << "kv_heads " << kv_heads << " row " << row << " t " << t << " head " << head;
          }
        }
      }
    }
  }
}

TEST(Attention, TheFutureChangesNothing) {
  Problem at({.batch = {1, 600}, .heads = 2, .kv_heads = 1, .head_dim = 8});
  at.forward();
  const Floats before = at.out;
  for (std::size_t i = 500 * 8; i < at.k.size(); ++i) at.k[i] = at.v[i] = 1e3F;
  at.forward();
  for (std::size_t i = 0; i < 500 * 16; ++i) ASSERT_EQ(at.out[i], before[i]) << i;
}

// LibTorch changes the thread count of every thread that it meets for the first time.
TEST(Attention, KeepsTheThreadCountOfAThreadThatIsNewToIt) {
  for (const int threads : {1, 3, 5}) {
    std::thread([threads] {
      kernels::set_kernel_threads(threads);
      Problem at({.batch = {1, 4}, .heads = 2, .kv_heads = 1, .head_dim = 8});
      at.forward();
      EXPECT_EQ(kernels::kernel_threads(), threads);
    }).join();
  }
}

TEST(Attention, TwoThreadsRepeatTheSameBitsAndAgreeWithOne) {
  const auto run = [](int threads) {
    Problem at({.batch = {2, 129}, .heads = 6, .kv_heads = 2, .head_dim = 16});
    const Floats dout = random_values(static_cast<std::int64_t>(at.q.size()), 4);
    Floats dq(at.q.size()), dk(at.k.size()), dv(at.v.size());
    std::thread([&] {
      kernels::set_kernel_threads(threads);
      at.forward();
      attention_backward(at.shape,
                         {at.q.data(), at.k.data(), at.v.data(), at.out.data(), at.logsumexp.data(),
                          dout.data(), dq.data(), dk.data(), dv.data()});
    }).join();
    return std::vector<Floats>{at.out, dq, dk, dv};
  };
  const std::vector<Floats> first = run(2);
  EXPECT_EQ(run(2), first);
  const std::vector<Floats> alone = run(1);
  for (std::size_t part = 0; part < first.size(); ++part) {
    for (std::size_t i = 0; i < first[part].size(); ++i) {
      ASSERT_NEAR(first[part][i], alone[part][i], 1e-5) << part << " " << i;
    }
  }
}

}  // namespace
}  // namespace fm::model
