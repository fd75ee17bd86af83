// Both attentions against autograd in fp64, and what only ours promises: the same bits whatever the
// threads and the batch, and a future that changes nothing.
#include "kernels/attention/attention.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <thread>
#include <vector>

#include "core/element.h"
#include "kernels/threads.h"
#include "tests/model/decoder_twin.h"
#include "tests/model/torch_attention.h"

namespace fm::model {
namespace {

using Floats = std::vector<float>;

enum class Library : std::uint8_t { kOwn, kTorch };
constexpr Library kLibraries[] = {Library::kOwn, Library::kTorch};

Floats random_values(std::int64_t count, std::uint32_t seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> normal;
  Floats values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(bits);
  return values;
}

// Bytes of a NaN.
constexpr std::byte kUnset{0xFF};

// Inputs, outputs, and exactly the work space that was announced.
struct Problem {
  kernels::AttentionShape shape;
  Library library;
  Floats q, k, v, dout, out, logsumexp, dq, dk, dv;

  explicit Problem(const kernels::AttentionShape& at, Library by = Library::kOwn)
      : shape(at), library(by) {
    const std::int64_t tokens = at.batch.tokens();
    q = random_values(tokens * at.heads * at.head_dim, 1);
    k = random_values(tokens * at.kv_heads * at.head_dim, 2);
    v = random_values(tokens * at.kv_heads * at.head_dim, 3);
    dout = random_values(tokens * at.heads * at.head_dim, 4);
    out = dq = Floats(q.size(), NAN);
    dk = dv = Floats(k.size(), NAN);
    logsumexp.resize(static_cast<std::size_t>(tokens * at.heads));
  }
  void forward() {
    const kernels::AttentionForward<float> at{q.data(), k.data(), v.data(), out.data(),
                                              logsumexp.data()};
    if (library == Library::kTorch)
      return torch_attention().forward(shape, at, kernels::kernel_threads());
    std::vector<std::byte> memory(
        static_cast<std::size_t>(
            kernels::attention_scratch<float>(shape, kernels::kernel_threads()).forward.count()),
        kUnset);
    core::Work work{core::Arena(memory), kernels::kernel_threads()};
    kernels::attention_forward<float>(work, shape, at);
  }
  void backward() {
    const kernels::AttentionBackward<float> at{q.data(),   k.data(),         v.data(),
                                               out.data(), logsumexp.data(), dout.data(),
                                               dq.data(),  dk.data(),        dv.data()};
    if (library == Library::kTorch)
      return torch_attention().backward(shape, at, kernels::kernel_threads());
    std::vector<std::byte> memory(
        static_cast<std::size_t>(
            kernels::attention_scratch<float>(shape, kernels::kernel_threads()).backward.count()),
        kUnset);
    core::Work work{core::Arena(memory), kernels::kernel_threads()};
    kernels::attention_backward<float>(work, shape, at);
  }
  void both() {
    forward();
    backward();
  }
  std::vector<Floats> results() const { return {out, dq, dk, dv}; }

  // [B, heads, T, d] in fp64.
  at::Tensor tensor(const Floats& from) const {
    const std::int64_t batch = shape.batch.batch;
    const std::int64_t seq_len = shape.batch.seq_len;
    const auto heads = static_cast<std::int64_t>(from.size()) / (batch * seq_len * shape.head_dim);
    return tensor_of(from.data(), {batch, seq_len, heads, shape.head_dim}).transpose(1, 2);
  }
};

double gap(const at::Tensor& expected_BHTd, const Floats& got) {
  return difference(expected_BHTd.transpose(1, 2).contiguous(), got.data());
}

void expect_autograd(Problem& at) {
  at.both();
  const at::Tensor q = at.tensor(at.q).set_requires_grad(true);
  const at::Tensor k = at.tensor(at.k).set_requires_grad(true);
  const at::Tensor v = at.tensor(at.v).set_requires_grad(true);
  const std::int64_t group = at.shape.heads / at.shape.kv_heads;
  const std::int64_t seq_len = at.shape.batch.seq_len;
  const at::Tensor future = at::ones({seq_len, seq_len}, at::kBool).triu(1);
  const at::Tensor scores = q.matmul(k.repeat_interleave(group, 1).transpose(2, 3)) /
                            std::sqrt(static_cast<double>(at.shape.head_dim));
  const at::Tensor probs = scores.masked_fill(future, -INFINITY).softmax(-1);
  const at::Tensor out = probs.matmul(v.repeat_interleave(group, 1));
  out.backward(at.tensor(at.dout));
  constexpr double kTolerance = 8e-6;  // of the largest magnitude; 1.5e-6 was measured
  EXPECT_LT(gap(out.detach(), at.out), kTolerance);
  EXPECT_LT(gap(q.grad(), at.dq), kTolerance);
  EXPECT_LT(gap(k.grad(), at.dk), kTolerance);
  EXPECT_LT(gap(v.grad(), at.dv), kTolerance);
}

// Lengths on both sides of the blocks of 64 queries and 128 keys, and of the rows of 8 and 16.
TEST(Attention, EqualsAutogradInDouble) {
  const kernels::AttentionShape shapes[] = {
      {{1, 1}, 2, 1, 16},    {{2, 7}, 4, 4, 16},   {{2, 11}, 6, 2, 10},  {{1, 64}, 2, 2, 64},
      {{2, 65}, 4, 1, 64},   {{1, 129}, 4, 2, 80}, {{2, 130}, 2, 1, 32}, {{1, 200}, 3, 3, 8},
      {{1, 257}, 2, 1, 128}, {{1, 300}, 4, 1, 16}};
  for (const Library library : kLibraries) {
    for (const kernels::AttentionShape& shape : shapes) {
      SCOPED_TRACE(testing::Message()
                   << (library == Library::kOwn ? "own" : "torch") << " B " << shape.batch.batch
                   << " T " << shape.batch.seq_len << " heads " << shape.heads << " of "
                   << shape.kv_heads << " d " << shape.head_dim);
      Problem at(shape, library);
      expect_autograd(at);
    }
  }
}

std::vector<core::Bf16> rounded(const Floats& from) {
  std::vector<core::Bf16> to;
  for (const float value : from) to.push_back(core::to_bf16(value));
  return to;
}
Floats widened(const std::vector<core::Bf16>& from) {
  Floats to;
  for (const core::Bf16 value : from) to.push_back(core::to_float(value));
  return to;
}

// The numbers of fp32 attention on the same inputs, each rounded once.
TEST(Attention, InBf16IsTheRoundedFp32Attention) {
  for (const kernels::AttentionShape& shape :
       {kernels::AttentionShape{{1, 1}, 2, 1, 16}, {{2, 65}, 4, 2, 10}, {{1, 300}, 6, 2, 64}}) {
    SCOPED_TRACE(testing::Message() << "T " << shape.batch.seq_len << " d " << shape.head_dim);
    Problem wide(shape);
    const auto q = rounded(wide.q);
    const auto k = rounded(wide.k);
    const auto v = rounded(wide.v);
    const auto dout = rounded(wide.dout);
    wide.q = widened(q);
    wide.k = widened(k);
    wide.v = widened(v);
    wide.dout = widened(dout);
    wide.forward();
    auto out = rounded(wide.out);
    const auto expected_out = widened(out);
    std::ranges::fill(out, core::Bf16{0xFFFF});
    Floats logsumexp(wide.logsumexp.size(), NAN);
    const kernels::AttentionScratch sizes =
        kernels::attention_scratch<core::Bf16>(shape, kernels::kernel_threads());
    std::vector<std::byte> memory(
        static_cast<std::size_t>(std::max(sizes.forward, sizes.backward).count()), kUnset);
    core::Work work{core::Arena(memory), kernels::kernel_threads()};
    kernels::attention_forward<core::Bf16>(
        work, shape, {q.data(), k.data(), v.data(), out.data(), logsumexp.data()});
    EXPECT_EQ(widened(out), expected_out);
    EXPECT_EQ(logsumexp, wide.logsumexp);

    wide.out = widened(out);  // backward reads what was stored
    wide.backward();
    auto dq = rounded(Floats(q.size(), NAN));
    auto dk = rounded(Floats(k.size(), NAN));
    auto dv = dk;
    kernels::attention_backward<core::Bf16>(
        work, shape,
        {q.data(), k.data(), v.data(), out.data(), logsumexp.data(), dout.data(), dq.data(),
         dk.data(), dv.data()});
    EXPECT_EQ(widened(dq), widened(rounded(wide.dq)));
    EXPECT_EQ(widened(dk), widened(rounded(wide.dk)));
    EXPECT_EQ(widened(dv), widened(rounded(wide.dv)));
  }
}

TEST(Attention, TheFutureChangesNothing) {
  for (const Library library : kLibraries) {
    for (const std::size_t cut : {1, 7, 8, 64, 100, 500}) {
      Problem at({.batch = {1, 600}, .heads = 2, .kv_heads = 1, .head_dim = 8}, library);
      at.both();
      const Problem before = at;
      for (std::size_t i = cut * 8; i < at.k.size(); ++i) at.k[i] = at.v[i] = 1e3F;
      at.both();
      for (std::size_t i = 0; i < cut * 16; ++i) {
        ASSERT_EQ(at.out[i], before.out[i]) << "token " << i / 16 << " before " << cut;
        ASSERT_EQ(at.dq[i], before.dq[i]) << "token " << i / 16 << " before " << cut;
      }
      EXPECT_NE(at.out, before.out);
    }
  }
}

// A score is 1000 times the key's position: e^score overflows, and each query sees its own value.
TEST(Attention, LargeScoresDoNotOverflow) {
  Problem at({.batch = {1, 300}, .heads = 1, .kv_heads = 1, .head_dim = 4});
  for (std::size_t t = 0; t < 300; ++t) {
    for (std::size_t i = 0; i < 4; ++i) {
      at.q[4 * t + i] = i == 0 ? 2000.0F : 0.0F;
      at.k[4 * t + i] = i == 0 ? static_cast<float>(t) : 0.0F;
    }
  }
  at.both();
  EXPECT_EQ(at.out, at.v);
  EXPECT_EQ(at.dv, at.dout);
  // dout . v minus dout . out, the same products summed in another order, times a key or a query.
  for (const float value : at.dq) EXPECT_NEAR(value, 0.0, 1e-6 * 300);
  for (const float value : at.dk) EXPECT_NEAR(value, 0.0, 1e-6 * 2000);
}

TEST(Attention, NumbersThatAreNoneAreNotHidden) {
  for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
    Problem at({.batch = {1, 150}, .heads = 1, .kv_heads = 1, .head_dim = 8});
    at.q[8 * 140] = bad;
    at.both();
    EXPECT_TRUE(std::isnan(at.out[8 * 140])) << bad;
    EXPECT_TRUE(std::isnan(at.dq[8 * 140])) << bad;
    EXPECT_FALSE(std::isnan(at.out[8 * 139])) << bad;
  }
}

std::vector<Floats> results_with(int threads, Library library) {
  Problem at({.batch = {2, 129}, .heads = 6, .kv_heads = 2, .head_dim = 16}, library);
  std::thread([&] {
    kernels::set_kernel_threads(threads);
    at.both();
  }).join();
  return at.results();
}

TEST(Attention, ThreadsChangeNoBit) {
  const std::vector<Floats> alone = results_with(1, Library::kOwn);
  for (const int threads : {2, 3, 9}) EXPECT_EQ(results_with(threads, Library::kOwn), alone);
}

TEST(Attention, LibTorchRepeatsItsBitsWithTwoThreadsAndAgreesWithOne) {
  const std::vector<Floats> first = results_with(2, Library::kTorch);
  EXPECT_EQ(results_with(2, Library::kTorch), first);
  const std::vector<Floats> alone = results_with(1, Library::kTorch);
  for (std::size_t part = 0; part < first.size(); ++part) {
    for (std::size_t i = 0; i < first[part].size(); ++i) {
      ASSERT_NEAR(first[part][i], alone[part][i], 1e-5) << part << " " << i;
    }
  }
}

TEST(Attention, ARowOfTheBatchHasTheBitsItHasAlone) {
  Problem two({.batch = {2, 77}, .heads = 4, .kv_heads = 2, .head_dim = 24});
  two.both();
  Problem one({.batch = {1, 77}, .heads = 4, .kv_heads = 2, .head_dim = 24});
  const auto second = [](const Floats& of) {
    return Floats(of.begin() + static_cast<std::ptrdiff_t>(of.size() / 2), of.end());
  };
  one.q = second(two.q);
  one.k = second(two.k);
  one.v = second(two.v);
  one.dout = second(two.dout);
  one.both();
  EXPECT_EQ(one.out, second(two.out));
  EXPECT_EQ(one.dq, second(two.dq));
  EXPECT_EQ(one.dk, second(two.dk));
  EXPECT_EQ(one.dv, second(two.dv));
}

// LibTorch changes the thread count of every thread that it meets for the first time.
TEST(Attention, KeepsTheThreadCountOfAThreadThatIsNewToIt) {
  for (const Library library : kLibraries) {
    for (const int threads : {1, 3, 5}) {
      std::thread([threads, library] {
        kernels::set_kernel_threads(threads);
        Problem at({.batch = {1, 4}, .heads = 2, .kv_heads = 1, .head_dim = 8}, library);
        at.forward();
        EXPECT_EQ(kernels::kernel_threads(), threads);
      }).join();
    }
  }
}

}  // namespace
}  // namespace fm::model
