// The kernels between the matrix products, one thread: build/benchmarks/pointwise_benchmark.
// Beside the time of an element stands the memory bound: the bytes that must be read, and those
// that are written where nothing was read, at the rate at which the same thread reads as many
// bytes again and again in the same run. Where these fit a cache, so does the bound.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "benchmarks/random_elements.h"
#include "benchmarks/read_memory.h"
#include "kernels/dropout.h"
#include "kernels/pointwise/cross_entropy.h"
#include "kernels/pointwise/elements.h"
#include "kernels/pointwise/optimizers.h"
#include "kernels/pointwise/quantize.h"
#include "kernels/pointwise/rmsnorm.h"
#include "kernels/pointwise/rope.h"
#include "kernels/pointwise/sums.h"
#include "kernels/pointwise/swiglu.h"
#include "kernels/threads.h"

namespace {

using benchmark::State;
using fm::random_elements;
using fm::random_values;
using fm::core::Bf16;
using fm::kernels::RowShape;
using Floats = std::vector<float>;

constexpr std::int64_t kRows = 512;
constexpr std::int64_t kInCache = 1 << 16;
constexpr std::int64_t kInMemory = 1 << 24;

// `bytes`: of all arrays, each once.
template <class Work>
void run(State& state, std::int64_t elements, std::int64_t bytes, const Work& work) {
  const double rate = fm::own_read_rate(random_values(bytes / 4));
  work();
  const auto begin = std::chrono::steady_clock::now();
  for (auto _ : state) work();
  const double spent =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const double each = spent / static_cast<double>(state.iterations());
  const double bound = static_cast<double>(bytes) / rate;
  const auto count = static_cast<double>(elements);
  state.counters["ns/element"] = each * 1e9 / count;
  state.counters["bound_ns"] = bound * 1e9 / count;
  state.counters["GB/s"] = static_cast<double>(bytes) / each / 1e9;
  state.counters["times_bound"] = each / bound;
}

template <class T>
void rmsnorm_forward(State& state) {
  const RowShape shape{kRows, state.range(0)};
  const std::int64_t count = shape.rows * shape.width;
  const auto x = random_elements<T>(count);
  const auto weight = random_elements<T>(shape.width);
  std::vector<T> y(x.size());
  Floats rstd(kRows);
  run(state, count, 2 * count * std::int64_t{sizeof(T)}, [&] {
    fm::kernels::rmsnorm_rstd(fm::core::Work(), shape, x.data(), 1e-5, rstd.data());
    fm::kernels::rmsnorm_apply(fm::core::Work(), shape, x.data(), {weight.data()}, rstd.data(),
                               y.data());
  });
}
BENCHMARK(rmsnorm_forward<float>)->Arg(512)->Arg(2048);
BENCHMARK(rmsnorm_forward<Bf16>)->Arg(512);

// With the residual's gradient added.
template <class T>
void rmsnorm_backward(State& state) {
  const RowShape shape{kRows, state.range(0)};
  const std::int64_t count = shape.rows * shape.width;
  const auto x = random_elements<T>(count);
  const auto weight = random_elements<T>(shape.width);
  const Floats rstd(kRows, 1.0F);
  const Floats dy = random_values(count);
  std::vector<T> dx(x.size());
  Floats dweight(weight.size());
  run(state, count, count * std::int64_t{3 * sizeof(T) + sizeof(float)}, [&] {
    fm::kernels::rmsnorm_backward<T>(fm::core::Work(), shape,
                                     {.x = x.data(),
                                      .weight = weight.data(),
                                      .rstd = rstd.data(),
                                      .dy = dy.data(),
                                      .residual = x.data(),
                                      .dx = dx.data(),
                                      .dweight_sum = dweight.data()});
  });
}
BENCHMARK(rmsnorm_backward<float>)->Arg(512)->Arg(2048);
BENCHMARK(rmsnorm_backward<Bf16>)->Arg(512);

// `turn`: rope or rope_inverse.
template <class T, class Turn>
void turn_in_place(State& state, Turn* turn) {
  const std::int64_t heads = state.range(0);
  const std::int64_t head_dim = 64;
  const Floats angles(static_cast<std::size_t>(kRows * head_dim / 2), 0.6F);  // no growth
  const fm::kernels::RopeTable table{angles.data(), angles.data(), head_dim / 2, head_dim};
  const std::int64_t count = kRows * heads * head_dim;
  auto x = random_elements<T>(count);
  run(state, count, count * std::int64_t{sizeof(T)}, [&] {
    turn(fm::core::Work(), table, {1, kRows}, heads, x.data());
  });
}
template <class T>
void rope_in_place(State& state) {
  turn_in_place<T>(state, fm::kernels::rope<T>);
}
template <class T>
void rope_inverse_in_place(State& state) {
  turn_in_place<T>(state, fm::kernels::rope_inverse<T>);
}
BENCHMARK(rope_in_place<float>)->Arg(8);
BENCHMARK(rope_in_place<Bf16>)->Arg(8);
BENCHMARK(rope_inverse_in_place<float>)->Arg(8);
BENCHMARK(rope_inverse_in_place<Bf16>)->Arg(8);

template <class T>
void dropout_in_place(State& state) {
  const std::int64_t count = kRows * state.range(0);
  auto x = random_elements<T>(count);
  run(state, count, count * std::int64_t{sizeof(T)}, [&] {
    fm::kernels::dropout<T>(fm::core::Work(), {.key = 3, .dropped = 1U << 29}, 0, count, x.data());
  });
}
BENCHMARK(dropout_in_place<float>)->Arg(512);
BENCHMARK(dropout_in_place<Bf16>)->Arg(512);

template <class T>
void swiglu_forward(State& state) {
  const std::int64_t count = kRows * state.range(0);
  const auto gate = random_elements<T>(count);
  const auto up = random_elements<T>(count);
  std::vector<T> y(gate.size());
  run(state, count, 3 * count * std::int64_t{sizeof(T)},
      [&] { fm::kernels::swiglu(fm::core::Work(), count, gate.data(), up.data(), y.data()); });
}
BENCHMARK(swiglu_forward<float>)->Arg(1376);
BENCHMARK(swiglu_forward<Bf16>)->Arg(1376);

template <class T>
void swiglu_backward(State& state) {
  const std::int64_t count = kRows * state.range(0);
  const auto gate = random_elements<T>(count);
  const auto up = random_elements<T>(count);
  const auto dy = random_elements<T>(count);
  std::vector<T> dgate(gate.size());
  std::vector<T> dup(gate.size());
  std::vector<T> y(gate.size());
  run(state, count, 6 * count * std::int64_t{sizeof(T)}, [&] {
    fm::kernels::swiglu_backward<T>(
        fm::core::Work(), count,
        {gate.data(), up.data(), dy.data(), dgate.data(), dup.data(), y.data()});
  });
}
BENCHMARK(swiglu_backward<float>)->Arg(1376);
BENCHMARK(swiglu_backward<Bf16>)->Arg(1376);

// Loss and gradient; the gradient serves as the next logits: the same work, no copy.
void cross_entropy_in_place(State& state) {
  const fm::kernels::LogitRows shape{128, state.range(0)};
  const std::int64_t count = shape.rows * shape.width;
  Floats logits = random_values(count);
  const std::vector<std::int32_t> labels(128, 7);
  run(state, count, 4 * count, [&] {
    double sum = 0.0;
    fm::kernels::cross_entropy(fm::core::Work(), shape, logits.data(), labels.data(), {1.0}, &sum);
    benchmark::DoNotOptimize(sum);
  });
}
BENCHMARK(cross_entropy_in_place)->Arg(259)->Arg(32000);

// The loss alone, of an evaluation.
void cross_entropy_loss(State& state) {
  const fm::kernels::LogitRows shape{128, state.range(0)};
  const std::int64_t count = shape.rows * shape.width;
  const Floats logits = random_values(count);
  const std::vector<std::int32_t> labels(128, 7);
  run(state, count, 4 * count, [&] {
    double sum = 0.0;
    fm::kernels::cross_entropy_loss(fm::core::Work(), shape, logits.data(), labels.data(), &sum);
    benchmark::DoNotOptimize(sum);
  });
}
BENCHMARK(cross_entropy_loss)->Arg(259)->Arg(32000);

template <class T>
void embedding_backward(State& state) {
  const std::int64_t width = state.range(0);
  std::vector<std::int32_t> tokens(kRows);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i * 61);
  const auto dout = random_elements<T>(kRows * width);
  Floats table(static_cast<std::size_t>(32000 * width));
  run(state, kRows * width, kRows * width * std::int64_t{sizeof(T) + sizeof(float)}, [&] {
    fm::kernels::embedding_backward<T>(fm::core::Work(), tokens, {0, 32000}, dout.data(), width,
                                       table.data());
  });
}
BENCHMARK(embedding_backward<float>)->Arg(512);
BENCHMARK(embedding_backward<Bf16>)->Arg(512);

template <class From, class To>
void cast(State& state) {
  const std::int64_t count = state.range(0);
  const auto from = random_elements<From>(count);
  std::vector<To> to(from.size());
  run(state, count, count * std::int64_t{sizeof(From) + sizeof(To)},
      [&] { fm::kernels::cast(fm::core::Work(), count, from.data(), to.data()); });
}
BENCHMARK(cast<float, Bf16>)->Arg(kInCache)->Arg(kInMemory);
BENCHMARK(cast<Bf16, float>)->Arg(kInCache)->Arg(kInMemory);

void adamw_update(State& state) {
  const std::int64_t count = state.range(0);
  Floats param = random_values(count);
  const Floats grad = random_values(count);
  Floats first(param.size());
  Floats second(param.size());
  const fm::kernels::AdamwStep step{
      .lr = 1e-5, .weight_decay = 0.1, .correction1 = 0.1, .correction2 = 0.001};
  run(state, count, 16 * count, [&] {
    fm::kernels::adamw(fm::core::Work(), step,
                       {param.data(), grad.data(), first.data(), second.data(), count});
  });
}
BENCHMARK(adamw_update)->Arg(kInCache)->Arg(kInMemory);

void lion_and_adagrad(State& state) {
  const std::int64_t count = state.range(0);
  Floats param = random_values(count);
  const Floats grad = random_values(count);
  Floats moment(param.size());
  Floats sum(param.size());
  run(state, count, 24 * count, [&] {
    fm::kernels::lion(fm::core::Work(), {.lr = 1e-5},
                      {param.data(), grad.data(), moment.data(), count});
    fm::kernels::adagrad(fm::core::Work(), {.lr = 1e-5},
                         {param.data(), grad.data(), sum.data(), count});
  });
}
BENCHMARK(lion_and_adagrad)->Arg(kInCache)->Arg(kInMemory);

void squared_norm(State& state) {
  const std::int64_t count = state.range(0);
  const Floats values = random_values(count);
  std::vector<double> blocks(static_cast<std::size_t>(fm::kernels::norm_blocks(count)));
  run(state, count, 4 * count,
      [&] { fm::kernels::squared_norm(fm::core::Work(), values, blocks); });
}
BENCHMARK(squared_norm)->Arg(kInCache)->Arg(kInMemory);

// Zeros, because it is repeated.
void add(State& state) {
  const std::int64_t count = state.range(0);
  const Floats from(static_cast<std::size_t>(count));
  Floats into = random_values(count);
  run(state, count, 8 * count,
      [&] { fm::kernels::add(fm::core::Work(), count, from.data(), into.data()); });
}
BENCHMARK(add)->Arg(kInCache)->Arg(kInMemory);

// A sum in place with the squares of its blocks; zeros, because it is repeated.
void add_squares(State& state) {
  const std::int64_t count = state.range(0);
  const Floats from(static_cast<std::size_t>(count));
  Floats into = random_values(count);
  std::vector<double> blocks(static_cast<std::size_t>(fm::kernels::norm_blocks(count)));
  run(state, count, 8 * count,
      [&] { fm::kernels::add_squares(fm::core::Work(), count, from.data(), into.data(), blocks); });
}
BENCHMARK(add_squares)->Arg(kInCache)->Arg(kInMemory);

void tree_add(State& state) {
  const std::int64_t rows = state.range(0);
  const std::int64_t count = state.range(1);
  const std::vector<Floats> values(static_cast<std::size_t>(rows), random_values(count));
  std::vector<const float*> pointers;
  for (const Floats& row : values) pointers.push_back(row.data());
  Floats out(static_cast<std::size_t>(count));
  run(state, count, 4 * count * (rows + 1),
      [&] { fm::kernels::tree_add(fm::core::Work(), pointers, count, out.data()); });
}
BENCHMARK(tree_add)->ArgsProduct({{2, 4, 8}, {kInCache, kInMemory}});

// An all-reduce of two ranks; zeros, because it is repeated.
void tree_add_to_both(State& state) {
  const std::int64_t count = state.range(0);
  Floats a(static_cast<std::size_t>(count));
  Floats b(a.size());
  run(state, count, 8 * count,
      [&] { fm::kernels::tree_add_to_both(fm::core::Work(), count, a.data(), b.data()); });
}
BENCHMARK(tree_add_to_both)->Arg(kInCache)->Arg(kInMemory);

// There and back, in 8 or 4 bits.
void quantize(State& state) {
  const std::int64_t count = state.range(1);
  const bool eight = state.range(0) == 8;
  Floats x = random_values(count);
  Floats scales(static_cast<std::size_t>(fm::kernels::quant_blocks(count)));
  std::vector<std::int8_t> q8(x.size());
  std::vector<std::uint8_t> q4((x.size() + 1) / 2);
  run(state, count, count * std::int64_t{sizeof(float)}, [&] {
    if (eight) {
      fm::kernels::quantize8(count, x.data(), scales.data(), q8.data());
      fm::kernels::dequantize8(count, scales.data(), q8.data(), x.data());
    } else {
      fm::kernels::quantize4(count, x.data(), scales.data(), q4.data());
      fm::kernels::dequantize4(count, scales.data(), q4.data(), x.data());
    }
  });
}
BENCHMARK(quantize)->ArgsProduct({{8, 4}, {kInCache, kInMemory}});

}  // namespace

int main(int argc, char** argv) {
  fm::kernels::set_kernel_threads(1);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
