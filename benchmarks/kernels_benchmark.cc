// Rates of the kernels at Llama shapes, one thread: build/benchmarks/kernels_benchmark.
#include <benchmark/benchmark.h>

#include <iostream>
#include <random>
#include <vector>

#include "kernels/adamw.h"
#include "kernels/cross_entropy.h"
#include "kernels/gemm.h"
#include "kernels/rmsnorm.h"
#include "model/attention.h"

namespace {

using benchmark::Counter;
using benchmark::State;
using Floats = std::vector<float>;

Floats random_values(std::int64_t count) {
  std::mt19937 bits(1);
  std::normal_distribution<float> normal;
  Floats values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(bits);
  return values;
}

void report_flops(State& state, double flops) {
  state.counters["FLOP/s"] =
      Counter(flops, Counter::kIsIterationInvariantRate, Counter::OneK::kIs1000);
}

void report_elements(State& state, std::int64_t elements) {
  state.counters["s/element"] =
      Counter(static_cast<double>(elements), Counter::kIsIterationInvariantRate | Counter::kInvert);
}

// C [m, n] = A [m, k] W [n, k]^T, as in a forward pass.
void gemm_forward(State& state) {
  const std::int64_t m = state.range(0);
  const std::int64_t n = state.range(1);
  const std::int64_t k = state.range(2);
  const Floats a = random_values(m * k);
  const Floats w = random_values(n * k);
  Floats c(static_cast<std::size_t>(m * n));
  for (auto _ : state) {
    fm::kernels::gemm({m, n, k}, {a.data(), k}, {w.data(), k, fm::kernels::Form::kTransposed},
                      {c.data(), n});
  }
  report_flops(state, 2.0 * static_cast<double>(m * n) * static_cast<double>(k));
}
BENCHMARK(gemm_forward)->Args({256, 512, 512})->Args({256, 1376, 512})->Args({128, 32000, 512});

// dW [n, k] += dY [m, n]^T X [m, k]: beta = 1 into the gradient.
void gemm_weight_gradient(State& state) {
  const std::int64_t m = state.range(0);
  const std::int64_t n = state.range(1);
  const std::int64_t k = state.range(2);
  const Floats dy = random_values(m * n);
  const Floats x = random_values(m * k);
  Floats dw(static_cast<std::size_t>(n * k));
  for (auto _ : state) {
    fm::kernels::gemm({n, k, m}, {dy.data(), n, fm::kernels::Form::kTransposed}, {x.data(), k},
                      {dw.data(), k, fm::kernels::Beta::kOne});
  }
  report_flops(state, 2.0 * static_cast<double>(m * n) * static_cast<double>(k));
}
BENCHMARK(gemm_weight_gradient)->Args({256, 1376, 512})->Args({128, 32000, 512});

void rmsnorm_forward_backward(State& state) {
  const fm::kernels::RowShape shape{512, state.range(0)};
  const Floats x = random_values(shape.rows * shape.width);
  const Floats weight = random_values(shape.width);
  Floats y(x.size());
  Floats dx(x.size());
  Floats rstd(512);
  Floats dweight(weight.size());
  for (auto _ : state) {
    fm::kernels::rmsnorm_rstd(shape, x.data(), 1e-5, rstd.data());
    fm::kernels::rmsnorm_apply(shape, x.data(), weight.data(), rstd.data(), y.data());
    fm::kernels::rmsnorm_backward(shape, {.x = x.data(),
                                          .weight = weight.data(),
                                          .rstd = rstd.data(),
                                          .dy = y.data(),
                                          .residual = x.data(),
                                          .dx = dx.data(),
                                          .dweight_sum = dweight.data()});
  }
  report_elements(state, shape.rows * shape.width);
}
BENCHMARK(rmsnorm_forward_backward)->Arg(512)->Arg(2048);

void cross_entropy_in_place(State& state) {
  const fm::kernels::RowShape shape{128, state.range(0)};
  const Floats source = random_values(shape.rows * shape.width);
  const std::vector<std::int32_t> labels(128, 7);
  Floats logits = source;
  for (auto _ : state) {  // the gradient serves as the next logits: the same work, no copy
    benchmark::DoNotOptimize(
        fm::kernels::cross_entropy(shape, logits.data(), labels.data(), 1.0, 0.0));
  }
  report_elements(state, shape.rows * shape.width);
}
BENCHMARK(cross_entropy_in_place)->Arg(259)->Arg(32000);

void adamw_update(State& state) {
  const std::int64_t count = state.range(0);
  Floats param = random_values(count);
  const Floats grad = random_values(count);
  Floats first(param.size());
  Floats second(param.size());
  const fm::kernels::AdamwStep step{
      .lr = 1e-5, .weight_decay = 0.1, .correction1 = 0.1, .correction2 = 0.001};
  for (auto _ : state) {
    fm::kernels::adamw(step, {param.data(), grad.data(), first.data(), second.data(), count});
  }
  report_elements(state, count);
}
BENCHMARK(adamw_update)->Arg(1 << 12)->Arg(1 << 24);

void attention_forward_backward(State& state) {
  const fm::model::AttentionShape shape{
      .batch = {1, state.range(0)}, .heads = 8, .kv_heads = state.range(1), .head_dim = 64};
  const std::int64_t tokens = shape.batch.tokens();
  const Floats q = random_values(tokens * 512);
  const Floats k = random_values(tokens * shape.kv_heads * 64);
  Floats out(q.size());
  Floats dq(q.size());
  Floats dk(k.size());
  Floats dv(k.size());
  Floats logsumexp(static_cast<std::size_t>(tokens * 8));
  for (auto _ : state) {
    fm::model::attention_forward(shape,
                                 {q.data(), k.data(), k.data(), out.data(), logsumexp.data()});
    fm::model::attention_backward(
        shape, {q.data(), k.data(), k.data(), out.data(), logsumexp.data(), q.data(), dq.data(),
                dk.data(), dv.data()});
  }
  // Really executed with causal skipping: 2 products forward, 5 backward, half of each.
  report_flops(state, 7.0 * static_cast<double>(tokens * tokens * 512));
}
BENCHMARK(attention_forward_backward)->Args({512, 8})->Args({512, 2})->Args({2048, 8});

}  // namespace

int main(int argc, char** argv) {
  fm::kernels::set_kernel_threads(1);
  std::cout << fm::kernels::gemm_library() << '\n';
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
