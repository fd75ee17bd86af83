#include "engine/plan/time_estimate.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "core/check.h"
#include "core/element.h"
#include "core/text.h"
#include "engine/plan/device_cards.h"
#include "kernels/gemm/gemm.h"
#include "kernels/threads.h"

namespace fm::engine {
namespace {

constexpr double kShareOfProducts = 0.75;
// The best of some 30 products, because others compute on these cores, too.
constexpr int kFewestRounds = 3;
constexpr std::chrono::milliseconds kMeasured(150);
// Floors of products, attention and memory are 0.75 to 0.8 of the rate of products alone; nine
// tenths of them are aimed at.
constexpr double kShareOfCards = 0.7;

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
  const auto begin = std::chrono::steady_clock::now();
  auto start = begin;
  for (int round = 0; round < kFewestRounds || start - begin < kMeasured; ++round) {
    start = std::chrono::steady_clock::now();
    kernels::gemm(work, {kSide, kSide, kSide}, {left.data(), kSide},
                  {right.data(), kSide, kernels::Form::kTransposed}, {out.data(), kSide});
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    best = std::max(best, 2.0 * kSide * kSide * kSide / spent.count() / 1e9);
  }
  kernels::set_kernel_threads(threads);
  return best;
}

double core_gflops(core::DType element) {
  if (element == core::DType::kBF16) return measure<core::Bf16>();
  if (element == core::DType::kF16) return measure<core::F16>();
  return measure<float>();
}

std::string rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.0f", value);
  return text;
}

}  // namespace

StepRate rate_of_cores(core::DType element, int cores) {
  const double each = core_gflops(element);
  return {cores, cores * each * 1e9, kShareOfProducts,
          core::concat(cores, cores == 1 ? " core of " : " cores of ", rounded(each), " GFLOP/s")};
}

std::optional<StepRate> rate_of_cards(std::string_view card, core::DType element, int cards) {
  const std::optional<CardRates> rates = card_rates(card);
  if (!rates) return std::nullopt;
  const double each = element == core::DType::kF32 ? rates->fp32_product : rates->bf16_product;
  return StepRate{
      cards, cards * each, kShareOfCards,
      core::concat(cards, " x ", rates->name, " of ", rounded(each / 1e12), " TFLOP/s, of which ",
                   rounded(100 * kShareOfCards), " % are expected: MFU ",
                   rounded(100 * kShareOfCards * each / rates->bf16_peak),
                   " %, of arithmetic alone; what ranks send, what moves through host memory, and "
                   "updates come on top")};
}

std::string estimate_text(double seconds, std::int64_t steps, const StepRate& rate) {
  return core::concat("about ", core::human_duration(seconds), " per step, ",
                      core::human_duration(seconds * static_cast<double>(steps)), " for ", steps,
                      " steps (", rate.text, ")");
}

}  // namespace fm::engine
