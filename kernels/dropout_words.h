// What decides about numbers of a dropout (kernels/dropout.h), a group at a time.
#pragma once

#include <algorithm>

#include "kernels/dropout.h"

namespace fm::kernels::FM_SIMD {

struct DropoutWords {
  std::uint32_t at[kDropoutGroup];  // by number
};

// Of the group that begins at number `first`, a multiple of kDropoutGroup: 16 blocks of
// core::philox.
[[gnu::always_inline]] inline void fill_words(std::uint64_t key, std::uint64_t first,
                                              DropoutWords& words) {
  constexpr int kBlocks = 16;
  std::uint32_t* const word0 = words.at;
  std::uint32_t* const word1 = words.at + kBlocks;
  std::uint32_t* const word2 = words.at + 2 * kBlocks;
  std::uint32_t* const word3 = words.at + 3 * kBlocks;
  for (int b = 0; b < kBlocks; ++b) {
    const std::uint64_t counter = first / 4 + static_cast<std::uint64_t>(b);
    word0[b] = static_cast<std::uint32_t>(counter);
    word1[b] = static_cast<std::uint32_t>(counter >> 32);
    word2[b] = 0;
    word3[b] = 0;
  }
  auto key0 = static_cast<std::uint32_t>(key);
  auto key1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int b = 0; b < kBlocks; ++b) {
      const std::uint64_t product0 = std::uint64_t{0xD2511F53U} * word0[b];
      const std::uint64_t product1 = std::uint64_t{0xCD9E8D57U} * word2[b];
      word0[b] = static_cast<std::uint32_t>(product1 >> 32) ^ word1[b] ^ key0;
      word1[b] = static_cast<std::uint32_t>(product1);
      word2[b] = static_cast<std::uint32_t>(product0 >> 32) ^ word3[b] ^ key1;
      word3[b] = static_cast<std::uint32_t>(product0);
    }
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
}

// x [count] are the numbers from `first` on.
[[gnu::always_inline]] inline void drop(const Dropout& by, std::uint64_t first, std::int64_t count,
                                        float* x) {
  const auto before = static_cast<std::int64_t>(first % kDropoutGroup);  // in the first group
  for (std::int64_t i = -before; i < count; i += kDropoutGroup) {
    DropoutWords words;
    fill_words(by.key, first + static_cast<std::uint64_t>(i), words);
    const std::int64_t width = std::min(kDropoutGroup, count - i);
    for (std::int64_t j = std::max(-i, std::int64_t{0}); j < width; ++j) {
      x[i + j] = words.at[j] < by.dropped ? 0.0F : x[i + j] * by.scale;
    }
  }
}

}  // namespace fm::kernels::FM_SIMD
