// What decoding computes with: every instruction set gives the bits of the baseline, and these are
// near fp64.
#include "kernels/attention/cached.h"
#include "kernels/gemm/few_rows.h"
#include "tests/kernels/variants_case.h"

namespace fm::kernels {
namespace {

class DecodeKernels : public Variants {};

template <class T>
const ElementParts<T>& of(const Variant& variant) {
  if constexpr (std::is_same_v<T, float>) {
    return variant.parts.fp32;
  } else if constexpr (std::is_same_v<T, core::Bf16>) {
    return variant.parts.bf16;
  } else {
    return variant.parts.fp16;
  }
}

template <class Body>
void for_types(const Body& body) {
  body(float{});
  body(core::Bf16{});
  body(core::F16{});
}

constexpr std::int64_t kKeys = 37;
constexpr std::int64_t kHeads = 3;

TEST_P(DecodeKernels, AttendCached) {
  for_types([&]<class T>(T) {
    const CachedKeys shape{kKeys, kHeads, size(), size() + 5, 0.0F, size() % 2 == 0 ? 3.0F : 0.0F};
    const Narrows<T> q = narrowed<T>(values(kHeads * size(), 1, false));
    const Narrows<T> k = narrowed<T>(values(kKeys * shape.stride, 2, false));
    const Narrows<T> v = narrowed<T>(values(kKeys * shape.stride, 3, false));
    expect_as_baseline([&](const Variant& variant) {
      Narrows<T> out(q.size());
      Floats scratch(static_cast<std::size_t>(shape.scratch()));
      of<T>(variant).attend_cached(shape, {q.data(), k.data(), v.data(), out.data()},
                                   scratch.data());
      return to_floats(out);
    });
  });
}

TEST_P(DecodeKernels, FewRowsTile) {
  for (const Form form : {Form::kAsIs, Form::kTransposed}) {
    for_types([&]<class T>(T) {
      const GemmShape shape{kFewRows, 21, size()};
      const std::int64_t stride = (form == Form::kAsIs ? shape.n : shape.k) + 3;
      const std::int64_t rows = form == Form::kAsIs ? shape.k : shape.n;
      const Floats x = values(shape.m * shape.k, 1, false);
      const Narrows<T> weights = narrowed<T>(values(rows * stride, 2, false));
      expect_as_baseline([&](const Variant& variant) {
        Floats sums(static_cast<std::size_t>(shape.m * shape.n));
        of<T>(variant).few_rows_tile(
            {shape, x.data(), shape.k, {weights.data(), stride, form}, sums.data()});
        return sums;
      });
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, DecodeKernels, testing::Values(1, 15, 16, 64, 100, 1100));

double at(const Floats& from, std::int64_t place) {
  return static_cast<double>(from[static_cast<std::size_t>(place)]);
}

// softmax(q k^T scale) v of every query head, in fp64.
void expect_softmax_attention(float given_scale, float softcap) {
  constexpr std::int64_t kDim = 20;
  const CachedKeys shape{kKeys, kHeads, kDim, kDim, given_scale, softcap};
  const double scale = given_scale > 0.0F ? static_cast<double>(given_scale)
                                          : 1.0 / std::sqrt(static_cast<double>(kDim));
  const auto cap = static_cast<double>(softcap);
  const Floats q = values(kHeads * kDim, 1, false);
  const Floats k = values(kKeys * kDim, 2, false);
  const Floats v = values(kKeys * kDim, 3, false);
  Floats out(q.size());
  Floats scratch(static_cast<std::size_t>(shape.scratch()));
  attend_cached<float>(shape, {q.data(), k.data(), v.data(), out.data()}, scratch.data());
  for (std::int64_t head = 0; head < kHeads; ++head) {
    double total = 0.0;
    std::vector<double> expected(kDim);
    for (std::int64_t key = 0; key < kKeys; ++key) {
      double score = 0.0;
      for (std::int64_t i = 0; i < kDim; ++i) {
        score += at(q, head * kDim + i) * at(k, key * kDim + i);
      }
      score *= scale;
      const double weight = std::exp(cap > 0.0 ? cap * std::tanh(score / cap) : score);
      total += weight;
      for (std::int64_t i = 0; i < kDim; ++i) {
        expected[static_cast<std::size_t>(i)] += weight * at(v, key * kDim + i);
      }
    }
    for (std::int64_t i = 0; i < kDim; ++i) {
      EXPECT_NEAR(at(out, head * kDim + i), expected[static_cast<std::size_t>(i)] / total, 2e-5);
    }
  }
}
TEST(AttendCached, IsSoftmaxAttentionOverTheKeys) {
  expect_softmax_attention(0.0F, 0.0F);
  expect_softmax_attention(0.06F, 0.0F);
  expect_softmax_attention(0.0F, 30.0F);
  expect_softmax_attention(0.5F, 2.0F);
}

}  // namespace
}  // namespace fm::kernels
