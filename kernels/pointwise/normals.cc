#include "kernels/pointwise/normals.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/pointwise/box_muller.h"

namespace fm::kernels::FM_SIMD {
namespace {

constexpr std::int64_t kChunk = 64;  // blocks at once: what they need stays in the first cache
constexpr int kWords = 4;

// Word w of block b is words[w][b].
struct Words {
  std::uint32_t at[kWords][kChunk];
};

// core::philox of kChunk consecutive counters.
void fill(std::uint64_t key, std::uint64_t first, Words& words) {
  for (std::int64_t b = 0; b < kChunk; ++b) {
    const std::uint64_t counter = first + static_cast<std::uint64_t>(b);
    words.at[0][b] = static_cast<std::uint32_t>(counter);
    words.at[1][b] = static_cast<std::uint32_t>(counter >> 32);
    words.at[2][b] = 0;
    words.at[3][b] = 0;
  }
  auto key0 = static_cast<std::uint32_t>(key);
  auto key1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (std::int64_t b = 0; b < kChunk; ++b) {
      const std::uint64_t product0 = std::uint64_t{0xD2511F53U} * words.at[0][b];
      const std::uint64_t product1 = std::uint64_t{0xCD9E8D57U} * words.at[2][b];
      words.at[0][b] = static_cast<std::uint32_t>(product1 >> 32) ^ words.at[1][b] ^ key0;
      words.at[1][b] = static_cast<std::uint32_t>(product1);
      words.at[2][b] = static_cast<std::uint32_t>(product0 >> 32) ^ words.at[3][b] ^ key1;
      words.at[3][b] = static_cast<std::uint32_t>(product0);
    }
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
}

// Whether fp64 values within 2^-42 of `value` round to another float, or nearly to none.
[[gnu::always_inline]] inline bool in_doubt(double value) {
  constexpr std::uint64_t kDropped = (1U << 29) - 1;  // bits of a double that a float has not
  constexpr std::uint64_t kMiddle = 1U << 28;
  constexpr std::uint64_t kWindow = 1U << 10;
  constexpr std::uint64_t kLeast = 0x39B0000000000000U;  // 2^-100
  constexpr std::uint64_t kMost = 0x4630000000000000U;   // 2^100
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
  const std::uint64_t from_middle = (bits & kDropped) - (kMiddle - kWindow);
  const std::uint64_t magnitude = (bits & 0x7FFFFFFFFFFFFFFFU) - kLeast;
  return (from_middle < 2 * kWindow) | (magnitude >= kMost - kLeast);
}

// What a pair of words gives, in fp64.
struct Pair {
  double first[kChunk];
  double second[kChunk];
};

// Elements that are not known well enough are 0, which is in doubt.
void fill(const std::uint32_t* radii, const std::uint32_t* angles, double scale, Pair& pair) {
  for (std::int64_t b = 0; b < kChunk; ++b) {
    const double radius = std::sqrt(-2.0 * log_of_uniform(radii[b]));
    const auto steps = static_cast<double>(static_cast<std::int32_t>(angles[b] >> 8) + 1);
    const CosSin turn = cos_sin(2.0 * std::numbers::pi * (steps * 0x1p-24));
    const double known = turn.to_axis > 1e-8 ? radius : 0.0;
    pair.first[b] = known * turn.cos * scale;
    pair.second[b] = known * turn.sin * scale;
  }
}

// Rounds; returns how many are in doubt.
std::int64_t round_all(const double* from, float* to) {
  std::int64_t doubts = 0;
  for (std::int64_t b = 0; b < kChunk; ++b) {
    const bool doubt = in_doubt(from[b]);
    doubts += doubt ? 1 : 0;
    to[b] = doubt ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(from[b]);
  }
  return doubts;
}

}  // namespace

std::int64_t normals(const NormalStream& stream, std::uint64_t first_block, std::int64_t blocks,
                     float* out) {
  std::int64_t doubts = 0;
  for (std::int64_t at = 0; at < blocks; at += kChunk) {
    Words words;
    fill(stream.key, first_block + static_cast<std::uint64_t>(at), words);
    Pair pairs[2];
    fill(words.at[0], words.at[1], stream.scale, pairs[0]);
    fill(words.at[2], words.at[3], stream.scale, pairs[1]);
    float rounded[kWords][kChunk];
    std::int64_t of_chunk = 0;
    for (int pair = 0; pair < 2; ++pair) {
      of_chunk += round_all(pairs[pair].first, rounded[2 * pair]);
      of_chunk += round_all(pairs[pair].second, rounded[2 * pair + 1]);
    }
    const std::int64_t used = blocks - at < kChunk ? blocks - at : kChunk;
    float* const to = out + at * kNormalsPerBlock;
    for (std::int64_t b = 0; b < used; ++b) {
      for (int word = 0; word < kWords; ++word) to[b * kWords + word] = rounded[word][b];
    }
    doubts += of_chunk;
  }
  return doubts;
}

}  // namespace fm::kernels::FM_SIMD
