// The memory bound of the benchmarks: how fast one thread reads.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <vector>

namespace fm {

// Reads all values once, in independent chains; the sum keeps the compiler from leaving them out.
inline float read_memory(const float* values, std::int64_t count) {
  constexpr std::int64_t kChains = 64;
  float chains[kChains] = {};
  for (std::int64_t i = 0; i + kChains <= count; i += kChains) {
    for (std::int64_t chain = 0; chain < kChains; ++chain) chains[chain] += values[i + chain];
  }
  return std::accumulate(chains, chains + kChains, 0.0F);
}

// Bytes per second at which this thread reads the values, as often as it likes: the median.
inline double own_read_rate(const std::vector<float>& values) {
  using Clock = std::chrono::steady_clock;
  constexpr double kSeconds = 0.02;
  std::vector<double> rates;
  float sum = 0.0F;
  for (double spent = 0.0; spent < kSeconds || rates.size() < 5;) {
    const auto begin = Clock::now();
    sum += read_memory(values.data(), static_cast<std::int64_t>(values.size()));
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    rates.push_back(static_cast<double>(values.size() * sizeof(float)) / seconds);
    spent += seconds;
  }
  volatile float sink = sum;
  static_cast<void>(sink);
  const auto middle = rates.begin() + std::ssize(rates) / 2;
  std::nth_element(rates.begin(), middle, rates.end());
  return *middle;
}

}  // namespace fm
