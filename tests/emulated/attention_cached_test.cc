// Attention of new tokens over a cache of a CUDA device against its formula in fp64.
#include "kernels/attention/attention_cached.h"

#include "tests/emulated/attention_case.h"

namespace fm::emulated {
namespace {

struct CachedCase {
  kernels::CachedShape shape;
  std::int64_t count, position, capacity;
};

template <class T>
Doubles cached_formula(const CachedCase& at, const Narrows<T>& q, const Narrows<T>& cache) {
  const std::int64_t d = at.shape.head_dim;
  const std::int64_t width = at.shape.kv_heads * d;
  const double scale = at.shape.scale > 0.0F ? static_cast<double>(at.shape.scale)
                                             : 1.0 / std::sqrt(static_cast<double>(d));
  const auto cap = static_cast<double>(at.shape.softcap);
  const Doubles wide_q = to_doubles(q);
  const Doubles wide_cache = to_doubles(cache);
  Doubles out(q.size());
  for (std::int64_t row = 0; row < at.count * at.shape.heads; ++row) {
    const std::int64_t head = row % at.shape.heads;
    const std::int64_t seen = at.position + row / at.shape.heads + 1;
    const std::int64_t window = at.shape.window > 0 ? at.shape.window : seen;
    const std::int64_t column = head / (at.shape.heads / at.shape.kv_heads) * d;
    double total = 0.0;
    Doubles sums(index(d));
    for (std::int64_t key = std::max(seen - window, std::int64_t{0}); key < seen; ++key) {
      double score = 0.0;
      for (std::int64_t i = 0; i < d; ++i) {
        score += wide_q[index(row * d + i)] * wide_cache[index(key * width + column + i)];
      }
      score *= scale;
      const double weight = std::exp(cap > 0.0 ? cap * std::tanh(score / cap) : score);
      total += weight;
      for (std::int64_t i = 0; i < d; ++i) {
        sums[index(i)] += weight * wide_cache[index((at.capacity + key) * width + column + i)];
      }
    }
    for (std::int64_t i = 0; i < d; ++i) out[index(row * d + i)] = sums[index(i)] / total;
  }
  return out;
}

template <class T>
void expect_cached(const CachedCase& at, std::int64_t off = 0) {
  SCOPED_TRACE(testing::Message() << "d " << at.shape.head_dim << " position " << at.position
                                  << " window " << at.shape.window << " off " << off);
  const std::int64_t width = at.shape.kv_heads * at.shape.head_dim;
  const auto from = static_cast<std::ptrdiff_t>(off);
  Narrows<T> cache = random_elements<T>(off + 2 * at.capacity * width, 1);
  const Narrows<T> q = random_elements<T>(off + at.count * at.shape.heads * at.shape.head_dim, 2);
  // Nothing reads beyond the new tokens.
  const T nan = core::to_element<T>(NAN);
  std::fill(cache.begin() + from + (at.position + at.count) * width,
            cache.begin() + from + at.capacity * width, nan);
  const Doubles expected =
      cached_formula<T>(at, {q.begin() + from, q.end()}, {cache.begin() + from, cache.end()});
  const Narrows<T> got = in_every_order([&] {
    Narrows<T> out = poisoned<T>(std::ssize(q));
    attention<T>().attention_cached(here, at.shape,
                                    {.count = at.count,
                                     .position = at.position,
                                     .capacity = at.capacity,
                                     .cache = cache.data() + off},
                                    q.data() + off, out.data() + off);
    return out;
  });
  EXPECT_LT(distance(expected, Narrows<T>(got.begin() + from, got.end())), tolerance<T>().forward);
}

TEST(EmulatedCachedAttention, EqualsTheFormula) {
  for (const std::int64_t dim : {1, 8, 33, 64, 80, 128, 256}) {
    for (const std::int64_t position : {0, 4, 63, 150}) {
      CachedCase at{{.heads = 4, .kv_heads = 2, .head_dim = dim}, 2, position, 200};
      expect_cached<float>(at);
      expect_cached<Bf16>(at);
      expect_cached<F16>(at, 1);
      at.shape.window = 40;
      expect_cached<Bf16>(at);
      at.shape.softcap = 2.0F;
      expect_cached<float>(at);
      at.shape.scale = 0.3F;
      expect_cached<Bf16>(at);
    }
  }
}

TEST(EmulatedCachedAttention, EveryBarrierIsNeeded) {
  const CachedCase at{{.heads = 2, .kv_heads = 1, .head_dim = 16}, 1, 70, 71};
  const Narrows<Bf16> q = random_elements<Bf16>(32, 1);
  Narrows<Bf16> cache = random_elements<Bf16>(2 * 71 * 16, 2);
  expect_every_barrier_needed([&] {
    Narrows<Bf16> out = poisoned<Bf16>(32);
    attention<Bf16>().attention_cached(
        here, at.shape, {.count = 1, .position = 70, .capacity = 71, .cache = cache.data()},
        q.data(), out.data());
    return out;
  });
}

}  // namespace
}  // namespace fm::emulated
