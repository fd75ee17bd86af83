// Attention of CUDA devices against its formula in fp64.
#include "kernels/attention/attention.h"

#include "tests/emulated/attention_formula.h"

namespace fm::emulated {
namespace {

template <class T>
void expect_formula(const AttentionShape& shape) {
  const std::int64_t tokens = shape.batch.seq_len;
  SCOPED_TRACE(testing::Message() << "elements of " << sizeof(T)
                                  << (std::is_same_v<T, Bf16> ? " (bf16)" : "") << " bytes, T "
                                  << tokens << " heads " << shape.heads << '/' << shape.kv_heads
                                  << " d " << shape.head_dim << " window " << shape.window
                                  << " keys " << shape.runs.keys << " dropped "
                                  << shape.dropout.dropped << " softcap " << shape.softcap);
  const Inputs<T> in(shape);
  const Formula<T> formula(in);
  const Expected& expected = formula.results();
  const Forward<T> got = forward(in);
  EXPECT_LT(distance(expected.out, got.out), tolerance<T>().forward);
  EXPECT_LT(distance(expected.logsumexp, got.logsumexp), 1e-5);
  const Gradients<T> gradients = backward(in, forward_of<T>(expected));
  const double most = tolerance<T>().backward;
  // Where each query sees one key the gradient of its scores is zero but for rounding of `out`.
  const bool flat = tokens == 1 || shape.window == 1;
  if (!flat) {
    EXPECT_LT(distance(expected.dq, gradients.dq), most);
    EXPECT_LT(distance(expected.dk, gradients.dk), most);
  }
  EXPECT_LT(distance(expected.dv, gradients.dv), most);
}

void expect_formula_of_all(const AttentionShape& shape) {
  expect_formula<float>(shape);
  expect_formula<Bf16>(shape);
  expect_formula<F16>(shape);
}

TEST(EmulatedAttention, EqualsTheFormula) {
  constexpr std::int64_t kHeads[][2] = {{4, 4}, {4, 2}, {6, 1}};
  std::size_t turn = 0;
  for (const std::int64_t tokens : {1, 5, 17, 64, 65, 100, 130}) {
    for (const std::int64_t dim : {8, 16, 32, 40, 64, 80, 128}) {
      const auto& heads = kHeads[++turn % 3];
      if (tokens <= 17) {
        expect_formula_of_all(shape_of(2, tokens, heads[0], heads[1], dim));
      } else if (turn % 2 == 0) {  // each of these is long
        expect_formula<Bf16>(shape_of(1, tokens, 2, turn % 4 / 2 + 1, dim));
      } else {
        expect_formula<float>(shape_of(1, tokens, 2, 2, dim));
        expect_formula<F16>(shape_of(1, tokens, 2, 1, dim));
      }
    }
  }
  for (const std::int64_t dim : {136, 256}) {
    expect_formula<Bf16>(shape_of(1, 67, 2, 1, dim));
    expect_formula<float>(shape_of(1, 35, 1, 1, dim));
  }
}

// Rows whose bytes are no multiple of 16.
TEST(EmulatedAttention, AHeadMayHaveAnyWidth) {
  for (const std::int64_t dim : {1, 3, 7, 33, 65}) {
    expect_formula_of_all(shape_of(2, 37, 2, 1, dim));
    expect_formula_of_all(shape_of(1, 70, 3, 3, dim));
  }
}

TEST(EmulatedAttention, AWindowHidesTheKeysBeforeIt) {
  for (const std::int64_t window : {1, 2, 31, 64, 65, 100, 129, 500}) {
    AttentionShape shape = shape_of(1, 180, 1, 1, 40);
    shape.window = window;
    expect_formula<float>(shape);
    expect_formula<Bf16>(shape);
  }
}

TEST(EmulatedAttention, ADocumentHidesTheKeysBeforeIt) {
  for (const std::uint32_t most : {7U, 40U, 90U}) {
    AttentionShape shape = shape_of(2, 130, 2, 1, 32);
    const auto starts = random_starts(2, 130, most);
    shape.starts_BT = starts.data();
    expect_formula_of_all(shape);
    shape.window = 29;
    expect_formula<Bf16>(shape);
  }
}

TEST(EmulatedAttention, DropoutLeavesOutProbabilities) {
  for (const std::int64_t tokens : {5, 64, 100}) {
    for (const std::int64_t dim : {40, 96}) {
      AttentionShape shape = shape_of(2, tokens, 2, 1, dim);
      shape.dropout = {.key = 0x123456789ABCDEFU, .dropped = 1U << 30, .scale = 4.0F / 3.0F};
      shape.first_sample = 3;
      shape.first_head = 2;
      shape.all_heads = 8;
      expect_formula_of_all(shape);
    }
  }
}

// Caps that scores rarely reach, and that most of them are near to; with everything else.
TEST(EmulatedAttention, ScoresHaveAScaleAndASoftcap) {
  std::size_t turn = 0;
  for (const std::int64_t tokens : {1, 37, 100}) {
    for (const std::int64_t dim : {16, 136}) {
      AttentionShape shape = shape_of(1, dim == 136 ? tokens / 2 + 1 : tokens, 2, 1, dim);
      shape.scale = ++turn % 2 == 0 ? 0.0F : 0.3F;
      expect_formula<Bf16>(shape);
      shape.softcap = turn % 3 == 0 ? 20.0F : 1.5F;
      expect_formula_of_all(shape);
      const auto starts = random_starts(1, shape.batch.seq_len, 60);
      shape.starts_BT = starts.data();
      shape.window = 50;
      shape.dropout = {.key = 5, .dropped = 1U << 30, .scale = 4.0F / 3.0F};
      expect_formula_of_all(shape);
    }
  }
  AttentionShape shape = shape_of(2, 70, 2, 1, 24);
  shape.softcap = 1.0F;
  shape.runs = {.row = 400, .first_query = 201, .first_key = 5, .keys = 100};
  expect_formula_of_all(shape);
}

// Keys of an earlier run, and the queries' own run, that begin anywhere in the row.
TEST(EmulatedAttention, RunsAreParts) {
  constexpr std::int64_t kWindows[] = {0, 100, 180};
  std::size_t turn = 0;
  for (const std::int32_t first_key : {0, 5, 64, 70}) {
    AttentionShape shape = shape_of(2, 70, 2, 1, 24);
    shape.window = kWindows[turn % 3];
    if (++turn % 2 == 0) shape.dropout = {.key = 5, .dropped = 1U << 30, .scale = 4.0F / 3.0F};
    shape.runs = {.row = 400, .first_query = 201, .first_key = first_key, .keys = 100};
    expect_formula_of_all(shape);
    // Documents that begin within the keys, and behind all of them.
    std::vector<std::int32_t> starts(140, 3);
    std::fill(starts.begin() + 40, starts.begin() + 70, first_key + 50);
    std::fill(starts.begin() + 100, starts.end(), 201 + 10);
    shape.starts_BT = starts.data();
    expect_formula<float>(shape);
    expect_formula<Bf16>(shape);
    // The queries' own run.
    shape.runs = {.row = 400, .first_query = 201, .first_key = 201};
    for (std::size_t t = 0; t < starts.size(); ++t) starts[t] = t % 70 < 29 ? 150 : 230;
    expect_formula<float>(shape);
    expect_formula<Bf16>(shape);
  }
}

// logsumexp: a query that sees one key has its score, one that sees none minus infinity.
template <class T>
void expect_edges() {
  AttentionShape shape = shape_of(1, 20, 1, 1, 16);
  shape.runs = {.row = 200, .first_query = 100, .first_key = 0, .keys = 20};
  shape.window = 90;  // query t sees keys from t + 11 on
  const Inputs<T> in(shape);
  const Forward<T> got = forward(in);
  for (std::int64_t t = 0; t < 20; ++t) {
    const float logsumexp = got.logsumexp[index(t)];
    if (t < 9) continue;
    EXPECT_EQ(logsumexp, -std::numeric_limits<float>::infinity()) << t;
    for (std::int64_t i = 0; i < 16; ++i) EXPECT_EQ(core::to_float(got.out[index(t * 16 + i)]), 0);
  }
  float score = 0.0F;  // of the query that sees the last key only
  for (std::size_t i = 0; i < 16; ++i) {
    score += core::to_float(in.q[8 * 16 + i]) * core::to_float(in.k[19 * 16 + i]);
  }
  EXPECT_NEAR(got.logsumexp[8], score, 1e-5);
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(core::to_float(got.out[8 * 16 + i]), core::to_float(in.v[19 * 16 + i]));
  }
}
TEST(EmulatedAttention, AQueryMaySeeOneKeyOrNone) {
  expect_edges<float>();
  expect_edges<Bf16>();
  expect_edges<F16>();
}

// Arrays that begin beside a multiple of 16 bytes.
template <class T>
void expect_any_alignment() {
  const AttentionShape shape = shape_of(1, 70, 2, 1, 16);
  const Inputs<T> in(shape);
  const Forward<T> expected = forward(in);
  const auto shifted = [](const Narrows<T>& values) {
    Narrows<T> other(1);
    other.insert(other.end(), values.begin(), values.end());
    return other;
  };
  const Narrows<T> q = shifted(in.q), k = shifted(in.k), v = shifted(in.v), dout = shifted(in.dout);
  Forward<T> got{poisoned<T>(std::ssize(q)), poisoned<float>(140)};
  const auto& kernels = attention<T>();
  kernels.attention_forward(
      here, shape,
      {q.data() + 1, k.data() + 1, v.data() + 1, got.out.data() + 1, got.logsumexp.data()});
  EXPECT_EQ(0,
            std::memcmp(got.out.data() + 1, expected.out.data(), expected.out.size() * sizeof(T)));
  if (kernels.attention_backward == nullptr) return;
  const Gradients<T> gradients = backward(in, expected);
  Gradients<T> to{poisoned<T>(std::ssize(q)), poisoned<T>(std::ssize(k)),
                  poisoned<T>(std::ssize(v))};
  kernels.attention_backward(
      here, shape,
      {q.data() + 1, k.data() + 1, v.data() + 1, got.out.data() + 1, got.logsumexp.data(),
       dout.data() + 1, to.dq.data() + 1, to.dk.data() + 1, to.dv.data() + 1});
  const auto same = [](const Narrows<T>& one, const Narrows<T>& other) {
    return std::memcmp(one.data() + 1, other.data(), other.size() * sizeof(T)) == 0;
  };
  EXPECT_TRUE(same(to.dq, gradients.dq));
  EXPECT_TRUE(same(to.dk, gradients.dk));
  EXPECT_TRUE(same(to.dv, gradients.dv));
}
TEST(EmulatedAttention, ArraysMayBeginAnywhere) {
  expect_any_alignment<float>();
  expect_any_alignment<Bf16>();
  expect_any_alignment<F16>();
}

template <class T>
void expect_same_in_every_order(std::int64_t dim) {
  const Inputs<T> in(shape_of_all(dim));
  in_every_order([&] {
    const Forward<T> by = forward(in);
    return bytes_of(by, backward(in, by));
  });
}
TEST(EmulatedAttention, TheOrderOfThreadsChangesNoBit) {
  expect_same_in_every_order<float>(40);
  for (const std::int64_t dim : {40, 64, 72, 136}) expect_same_in_every_order<Bf16>(dim);
  expect_same_in_every_order<F16>(33);
}

template <class T>
void expect_barriers_needed(std::int64_t dim) {
  SCOPED_TRACE(testing::Message() << "d " << dim << ' ' << sizeof(T));
  const Inputs<T> in(shape_of(1, 126, 1, 1, dim));
  const Forward<T> by = forward(in);
  expect_every_barrier_needed([&] { return bytes_of(forward(in), Gradients<T>{}); });
  expect_every_barrier_needed([&] { return bytes_of(Forward<T>{}, backward(in, by)); });
}
TEST(EmulatedAttention, EveryBarrierIsNeeded) {
  expect_barriers_needed<float>(8);
  for (const std::int64_t dim : {8, 64, 72, 136}) expect_barriers_needed<Bf16>(dim);
}

}  // namespace
}  // namespace fm::emulated
