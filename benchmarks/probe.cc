// What one core of this machine gives now: {"simd", "fma_gflops", "read_gb_s"} as one JSON object,
// in about 0.3 s. compare.py runs one per core before every run, to see noise and to know the peak.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

// Latency times issue ports of every known CPU is at most 10; 12 fit the 16 registers of AVX2.
constexpr int kChains = 12;
constexpr int kRounds = 100'000;
constexpr std::size_t kBufferBytes = std::size_t{256} << 20;  // beyond most last-level caches
constexpr std::size_t kWindowBytes = std::size_t{16} << 20;
constexpr double kSeconds = 0.1;

using Words = std::vector<std::uint64_t>;

// Inlined into functions of every instruction set, whose vectors it then uses.
[[gnu::always_inline]] inline std::uint64_t sum_words(const std::uint64_t* words) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kWindowBytes / sizeof(*words); ++i) sum += words[i];
  return sum;
}

// The compiler must not know a chain's value: equal chains would become one.
template <typename Vector>
[[gnu::always_inline]] inline void hide(Vector& value) {
  asm volatile("" : "+m"(value));
}

using Float4 = float __attribute__((vector_size(16)));

// Multiply and add apart: what a CPU without fused instructions does.
double multiply_add_baseline() {
  Float4 sums[kChains] = {};
  const Float4 factor = {0.5F, 0.5F, 0.5F, 0.5F};
  for (Float4& sum : sums) hide(sum);
  for (int round = 0; round < kRounds; ++round) {
    for (Float4& sum : sums) sum = sum * factor + factor;
  }
  for (Float4& sum : sums) hide(sum);
  return 2.0 * 4 * kChains * kRounds;
}

std::uint64_t read_baseline(const std::uint64_t* words) { return sum_words(words); }

struct Instructions {
  const char* name = nullptr;
  double (*multiply_add)() = nullptr;  // returns the operations it did
  std::uint64_t (*read)(const std::uint64_t* words) = nullptr;
};

#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] double multiply_add_avx2() {
  const __m256 factor = _mm256_set1_ps(0.5F);
  __m256 sums[kChains] = {};
  for (__m256& sum : sums) hide(sum);
  for (int round = 0; round < kRounds; ++round) {
    for (__m256& sum : sums) sum = _mm256_fmadd_ps(sum, factor, factor);
  }
  for (__m256& sum : sums) hide(sum);
  return 2.0 * 8 * kChains * kRounds;
}

[[gnu::target("avx2")]] std::uint64_t read_avx2(const std::uint64_t* words) {
  return sum_words(words);
}

[[gnu::target("avx512f")]] double multiply_add_avx512() {
  const __m512 factor = _mm512_set1_ps(0.5F);
  __m512 sums[kChains] = {};
  for (__m512& sum : sums) hide(sum);
  for (int round = 0; round < kRounds; ++round) {
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(sum, factor, factor);
  }
  for (__m512& sum : sums) hide(sum);
  return 2.0 * 16 * kChains * kRounds;
}

[[gnu::target("avx512f,prefer-vector-width=512")]] std::uint64_t read_avx512(
    const std::uint64_t* words) {
  return sum_words(words);
}

Instructions widest() {
  if (__builtin_cpu_supports("avx512f") != 0) return {"avx512", multiply_add_avx512, read_avx512};
  if (__builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0) {
    return {"avx2", multiply_add_avx2, read_avx2};
  }
  return {"baseline", multiply_add_baseline, read_baseline};
}
#else
Instructions widest() { return {"baseline", multiply_add_baseline, read_baseline}; }
#endif

// Median over short windows: a single interruption does not count, a slower clock does.
// `work` returns what it did in units of 1e9.
template <typename Work>
double median_rate(const Work& work) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> rates;
  const Clock::time_point begin = Clock::now();
  double elapsed = 0.0;
  while (elapsed < kSeconds || rates.size() < 5) {
    const Clock::time_point start = Clock::now();
    const double done = work();
    const Clock::time_point end = Clock::now();
    rates.push_back(done / std::chrono::duration<double>(end - start).count());
    elapsed = std::chrono::duration<double>(end - begin).count();
  }
  const auto middle = rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2);
  std::nth_element(rates.begin(), middle, rates.end());
  return *middle;
}

}  // namespace

int main() {
  const Instructions cpu = widest();
  const double fma = median_rate([&] { return cpu.multiply_add() / 1e9; });
  const Words words(kBufferBytes / sizeof(std::uint64_t), 1);
  std::size_t at = 0;
  std::uint64_t sum = 0;
  const double read = median_rate([&] {
    sum += cpu.read(words.data() + at / sizeof(std::uint64_t));
    at = (at + kWindowBytes) % kBufferBytes;
    return static_cast<double>(kWindowBytes) / 1e9;
  });
  if (sum == 0) return 1;  // every word is 1
  std::printf("{\"simd\": \"%s\", \"fma_gflops\": %.2f, \"read_gb_s\": %.2f}\n", cpu.name, fma,
              read);
  return 0;
}
