// Rates of matrix products and attention at Llama shapes, one thread:
// build/benchmarks/kernels_benchmark. pointwise_benchmark has the kernels between them.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <span>
#include <vector>

#include "benchmarks/random_elements.h"
#include "kernels/attention/attention.h"
#include "kernels/gemm/gemm.h"
#include "kernels/threads.h"
#include "tests/model/torch_attention.h"

namespace {

using benchmark::Counter;
using benchmark::State;
using fm::random_elements;
using fm::random_values;
using Floats = std::vector<float>;

// FLOP/s of fused multiply-adds in registers on one core, measured at the start of this run.
double fma_rate() {
  static const double kRate = [] {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> probe(popen(FM_PROBE, "r"), pclose);
    char text[512] = "";
    if (probe != nullptr && std::fgets(text, sizeof(text), probe.get()) == nullptr) return 0.0;
    const char* const at = std::strstr(text, "\"fma_gflops\":");
    return at == nullptr ? 0.0 : 1e9 * std::strtod(at + std::strlen("\"fma_gflops\":"), nullptr);
  }();
  return kRate;
}

// `of_fma`: the part of that rate. Products on AMX may pass 1.
void report_flops(State& state, double flops) {
  state.counters["FLOP/s"] =
      Counter(flops, Counter::kIsIterationInvariantRate, Counter::OneK::kIs1000);
  state.counters["of_fma"] = Counter(flops / fma_rate(), Counter::kIsIterationInvariantRate);
}

// C [m, n] = A [m, k] W [n, k]^T, as in a forward pass.
template <class T>
void gemm_forward(State& state) {
  const std::int64_t m = state.range(0);
  const std::int64_t n = state.range(1);
  const std::int64_t k = state.range(2);
  const std::vector<T> a = random_elements<T>(m * k);
  const std::vector<T> w = random_elements<T>(n * k);
  std::vector<T> c(static_cast<std::size_t>(m * n));
  for (auto _ : state) {
    fm::kernels::gemm({}, {m, n, k}, {a.data(), k}, {w.data(), k, fm::kernels::Form::kTransposed},
                      {c.data(), n});
  }
  report_flops(state, 2.0 * static_cast<double>(m * n) * static_cast<double>(k));
}

// dX [m, k] = dY [m, n] W [n, k].
template <class T>
void gemm_input_gradient(State& state) {
  const std::int64_t m = state.range(0);
  const std::int64_t n = state.range(1);
  const std::int64_t k = state.range(2);
  const std::vector<T> dy = random_elements<T>(m * n);
  const std::vector<T> w = random_elements<T>(n * k);
  std::vector<T> dx(static_cast<std::size_t>(m * k));
  for (auto _ : state) {
    fm::kernels::gemm({}, {m, k, n}, {dy.data(), n}, {w.data(), k}, {dx.data(), k});
  }
  report_flops(state, 2.0 * static_cast<double>(m * n) * static_cast<double>(k));
}

// dW [n, k] += dY [m, n]^T X [m, k]: beta = 1 into the gradient, which is fp32.
template <class T>
void gemm_weight_gradient(State& state) {
  const std::int64_t m = state.range(0);
  const std::int64_t n = state.range(1);
  const std::int64_t k = state.range(2);
  const std::vector<T> dy = random_elements<T>(m * n);
  const std::vector<T> x = random_elements<T>(m * k);
  Floats dw(static_cast<std::size_t>(n * k));
  for (auto _ : state) {
    fm::kernels::gemm({}, {n, k, m}, {dy.data(), n, fm::kernels::Form::kTransposed}, {x.data(), k},
                      {dw.data(), k, fm::kernels::Beta::kOne});
  }
  report_flops(state, 2.0 * static_cast<double>(m * n) * static_cast<double>(k));
}

void linear_shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({512, 512, 512})->Args({512, 1376, 512})->Args({512, 512, 1376});
  benchmark->Args({512, 256, 512})->Args({256, 32000, 512});
}
BENCHMARK(gemm_forward<float>)->Apply(linear_shapes);
BENCHMARK(gemm_forward<fm::core::Bf16>)->Apply(linear_shapes);
BENCHMARK(gemm_input_gradient<float>)->Apply(linear_shapes);
BENCHMARK(gemm_input_gradient<fm::core::Bf16>)->Apply(linear_shapes);
BENCHMARK(gemm_weight_gradient<float>)->Apply(linear_shapes);
BENCHMARK(gemm_weight_gradient<fm::core::Bf16>)->Apply(linear_shapes);

// Arguments: batch, tokens, query heads, key/value heads, head dim, and which attention. 2: ours, a
// row all of documents of the last argument's tokens.
class AttentionRun {
 public:
  explicit AttentionRun(const State& state)
      : shape_{.batch = {state.range(0), state.range(1)},
               .heads = state.range(2),
               .kv_heads = state.range(3),
               .head_dim = state.range(4)},
        by_torch_(state.range(5) == 1) {
    const std::int64_t tokens = shape_.batch.tokens();
    q_ = random_values(tokens * shape_.heads * shape_.head_dim);
    k_ = random_values(tokens * shape_.kv_heads * shape_.head_dim);
    out_ = dq_ = Floats(q_.size());
    dk_ = dv_ = Floats(k_.size());
    logsumexp_.resize(static_cast<std::size_t>(tokens * shape_.heads));
    if (state.range(5) == 2) {
      for (std::int64_t t = 0; t < tokens; ++t) {
        const std::int64_t place = t % shape_.batch.seq_len;
        starts_.push_back(static_cast<std::int32_t>(place - place % state.range(6)));
      }
      shape_.starts_BT = starts_.data();
    }
    const fm::kernels::AttentionScratch scratch = fm::kernels::attention_scratch<float>(shape_, 1);
    memory_.resize(
        static_cast<std::size_t>(std::max(scratch.forward, scratch.backward).count() / 4) + 16);
  }
  void forward() {
    const fm::kernels::AttentionForward<float> at{q_.data(), k_.data(), k_.data(), out_.data(),
                                                  logsumexp_.data()};
    if (by_torch_) return fm::model::torch_attention().forward(shape_, at, 1);
    fm::core::Work here = work();
    fm::kernels::attention_forward<float>(here, shape_, at);
  }
  void backward() {
    const fm::kernels::AttentionBackward<float> at{q_.data(),   k_.data(),         k_.data(),
                                                   out_.data(), logsumexp_.data(), q_.data(),
                                                   dq_.data(),  dk_.data(),        dv_.data()};
    if (by_torch_) return fm::model::torch_attention().backward(shape_, at, 1);
    fm::core::Work here = work();
    fm::kernels::attention_backward<float>(here, shape_, at);
  }
  // Really executed with causal skipping: half of each product.
  double flops_of(int products) const {
    return products * static_cast<double>(shape_.batch.tokens() * shape_.batch.seq_len) *
           static_cast<double>(shape_.heads * shape_.head_dim);
  }

 private:
  // On 64 bytes, as the engine's memory is.
  fm::core::Work work() {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    return {.arena = fm::core::Arena(
                std::as_writable_bytes(std::span(memory_)).subspan((64 - address % 64) % 64))};
  }

  fm::kernels::AttentionShape shape_;
  bool by_torch_;
  Floats q_, k_, out_, logsumexp_, dq_, dk_, dv_, memory_;
  std::vector<std::int32_t> starts_;
};

void attention_only_forward(State& state) {
  AttentionRun run(state);
  run.forward();  // LibTorch is loaded by its first call
  for (auto _ : state) run.forward();
  report_flops(state, run.flops_of(2));
}

void attention_forward_backward(State& state) {
  AttentionRun run(state);
  for (auto _ : state) {
    run.forward();
    run.backward();
  }
  report_flops(state, run.flops_of(7));
}

// Ours beside LibTorch's.
void attention_shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"B", "T", "heads", "kv", "d", "torch"});
  const std::vector<std::vector<std::int64_t>> shapes = {{2, 128, 4, 2, 64},  {2, 256, 8, 4, 64},
                                                         {1, 512, 8, 8, 64},  {1, 4096, 4, 4, 64},
                                                         {1, 512, 10, 5, 32}, {1, 512, 8, 4, 128}};
  for (std::vector<std::int64_t> shape : shapes) {
    shape.push_back(0);
    benchmark->Args(shape);
    shape.back() = 1;
    benchmark->Args(shape);
  }
}
BENCHMARK(attention_only_forward)->Apply(attention_shapes);
BENCHMARK(attention_forward_backward)->Apply(attention_shapes);

// A row as one document, and as documents of fewer tokens: rates are of the whole row.
void documents(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"B", "T", "heads", "kv", "d", "torch", "document"});
  benchmark->Args({1, 4096, 4, 4, 64, 0, 0});
  for (const std::int64_t tokens : {4096, 3000, 2048, 1000, 300, 100, 20}) {
    benchmark->Args({1, 4096, 4, 4, 64, 2, tokens});
  }
}
BENCHMARK(attention_forward_backward)->Name("document_attention")->Apply(documents);

}  // namespace

int main(int argc, char** argv) {
  fm::kernels::set_kernel_threads(1);
  std::cout << "fp32: " << fm::kernels::gemm_library(fm::core::DType::kF32)
            << "\nbf16: " << fm::kernels::gemm_library(fm::core::DType::kBF16) << '\n';
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
