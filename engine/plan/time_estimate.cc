#include "engine/plan/time_estimate.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "core/check.h"
#include "core/element.h"
#include "core/text.h"
#include "kernels/gemm/gemm.h"
#include "kernels/threads.h"

namespace fm::engine {
namespace {

constexpr double kShareOfProducts = 0.75;

template <class T>
double measure() {
  constexpr std::int64_t kSide = 512;
  const std::vector<T> left(kSide * kSide, core::to_element<T>(0.5F));
  const std::vector<T> right(kSide * kSide, core::to_element<T>(0.25F));
  std::vector<float> out(kSide * kSide);
  core::Work work;
  work.threads = 1;
  const int threads = kernels::kernel_threads();
  double best = 0.0;
  for (int round = 0; round < 3; ++round) {
    const auto start = std::chrono::steady_clock::now();
    kernels::gemm(work, {kSide, kSide, kSide}, {left.data(), kSide},
                  {right.data(), kSide, kernels::Form::kTransposed}, {out.data(), kSide});
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    best = std::max(best, 2.0 * kSide * kSide * kSide / spent.count() / 1e9);
  }
  kernels::set_kernel_threads(threads);
  return best;
}

}  // namespace

double measure_core_gflops(core::DType element) {
  if (element == core::DType::kBF16) return measure<core::Bf16>();
  if (element == core::DType::kF16) return measure<core::F16>();
  return measure<float>();
}

double step_seconds(double flops, int cores, double core_gflops) {
  return flops / (kShareOfProducts * cores * core_gflops * 1e9);
}

std::string estimate_text(double seconds, std::int64_t steps, int cores, double core_gflops) {
  char rate[32];
  std::snprintf(rate, sizeof(rate), "%.0f", core_gflops);
  return core::concat("about ", core::human_duration(seconds), " per step, ",
                      core::human_duration(seconds * static_cast<double>(steps)), " for ", steps,
                      " steps (", cores, cores == 1 ? " core of " : " cores of ", rate,
                      " GFLOP/s)");
}

}  // namespace fm::engine
