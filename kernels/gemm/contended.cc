#include "kernels/gemm/contended.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include "core/check.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/libraries.h"
#include "kernels/threads.h"

namespace fm::kernels {

GemmRates measure_gemm(const core::Work& work) {
  constexpr int kTurns = 4;  // the first of each warms up
  const GemmShape shape{.m = 512, .n = 512, .k = 1024};
  const std::vector<float> a(shape.m * shape.k, 0.5F);
  const std::vector<float> b(shape.n * shape.k, 0.25F);
  std::vector<float> c(shape.m * shape.n);
  const Operand<float> left{a.data(), shape.k};
  const Operand<float> right{b.data(), shape.k, Form::kTransposed};
  const Target<float> target{c.data(), shape.n};
  const auto rate_of = [&](const auto& multiply) {
    const auto start = std::chrono::steady_clock::now();
    multiply();
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    const double flops = 2.0 * static_cast<double>(shape.m * shape.n * shape.k);
    return flops / std::max(1e-9, spent.count()) / 1e9;
  };
  set_kernel_threads(work.threads);
  GemmRates best;
  for (int turn = 0; turn < kTurns; ++turn) {
    const double chosen = rate_of([&] { gemm(work, shape, left, right, target); });
    const double onednn = rate_of([&] { onednn_gemm(shape, left, right, target); });
    if (turn == 0) continue;
    best = {std::max(best.chosen, chosen), std::max(best.onednn, onednn)};
  }
  return best;
}

std::string contended_note(const GemmRates& rates) {
  constexpr double kWorthIt = 0.9;
  if (rates.chosen >= kWorthIt * rates.onednn) return "";
  return core::concat("the AMX unit seems to be shared: products of fp32 reach ",
                      std::llround(rates.chosen), " GFLOP/s on it, oneDNN's on AVX-512 ",
                      std::llround(rates.onednn),
                      "; if it stays so, start again with FME_GEMM=onednn (other bits)");
}

}  // namespace fm::kernels
