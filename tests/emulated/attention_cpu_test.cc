// Attention of CUDA devices beside this CPU's.
#include <gtest/gtest.h>

#include <span>

#include "tests/emulated/attention_formula.h"

namespace fm::emulated {
namespace {

// Against this CPU's kernels, which compute in fp32 and round once.
template <class T>
void expect_the_cpus(const AttentionShape& shape) {
  const kernels::AttentionScratch scratch = kernels::attention_scratch<T>(shape, 1);
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  const std::int64_t bytes = std::max(scratch.forward, scratch.backward).count();
  std::vector<Line> memory(index(bytes) / sizeof(Line) + 1);
  core::Work work{.arena = core::Arena(std::as_writable_bytes(std::span(memory)))};
  const Inputs<T> in(shape);
  Forward<T> by{poisoned<T>(std::ssize(in.q)), poisoned<float>(shape.batch.tokens() * shape.heads)};
  Gradients<T> expected{poisoned<T>(std::ssize(in.q)), poisoned<T>(std::ssize(in.k)),
                        poisoned<T>(std::ssize(in.v))};
  kernels::attention_forward<T>(
      work, shape, {in.q.data(), in.k.data(), in.v.data(), by.out.data(), by.logsumexp.data()});
  kernels::attention_backward<T>(work, shape, backward_arrays(in, by, expected));
  const Forward<T> got = forward(in);
  const Gradients<T> gradients = backward(in, by);
  EXPECT_LT(distance(to_doubles(by.out), got.out), 1.5 * tolerance<T>().forward);
  EXPECT_LT(distance(kernels::to_double(by.logsumexp), got.logsumexp), 1e-5);
  EXPECT_LT(distance(to_doubles(expected.dq), gradients.dq), 1.5 * tolerance<T>().backward);
  EXPECT_LT(distance(to_doubles(expected.dk), gradients.dk), 1.5 * tolerance<T>().backward);
  EXPECT_LT(distance(to_doubles(expected.dv), gradients.dv), 1.5 * tolerance<T>().backward);
}
TEST(EmulatedAttention, IsNearTheCpus) {
  AttentionShape shape = shape_of_all(40);
  const auto starts = random_starts(1, 110, 80);
  shape.starts_BT = starts.data();
  expect_the_cpus<float>(shape);
  expect_the_cpus<Bf16>(shape);
  expect_the_cpus<F16>(shape);
  shape.scale = 0.4F;
  shape.softcap = 2.0F;
  expect_the_cpus<float>(shape);
  expect_the_cpus<Bf16>(shape);
  shape = shape_of_all(24);
  shape.window = 260;  // each query sees a key: this CPU's gradients of one that sees none are NaN
  shape.runs = {.row = 400, .first_query = 150, .first_key = 30, .keys = 120};
  expect_the_cpus<float>(shape);
  expect_the_cpus<Bf16>(shape);
  expect_the_cpus<F16>(shape);
}

}  // namespace
}  // namespace fm::emulated
