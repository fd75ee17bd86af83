// Which probabilities stay (kernels/dropout.h), for the kernels of attention.
#pragma once

#include "kernels/cuda/attention.h"

namespace fm::kernels::cuda {

__device__ __forceinline__ uint4 philox_words(std::uint64_t key, std::uint64_t counter) {
  uint4 words =
      make_uint4(static_cast<unsigned>(counter), static_cast<unsigned>(counter >> 32), 0U, 0U);
  auto key0 = static_cast<unsigned>(key);
  auto key1 = static_cast<unsigned>(key >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const unsigned high0 = __umulhi(0xD2511F53U, words.x);
    const unsigned high1 = __umulhi(0xCD9E8D57U, words.z);
    words = make_uint4(high1 ^ words.y ^ key0, 0xCD9E8D57U * words.z, high0 ^ words.w ^ key1,
                       0xD2511F53U * words.x);
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return words;
}

// The number of a query's first key in the whole row.
__device__ __forceinline__ std::uint64_t first_number(const AttentionProblem& problem, int row,
                                                      int head, int query) {
  const KeptNumbers& kept = problem.kept;
  const std::int64_t of_step = kept.first_head + std::int64_t{row} * kept.all_heads + head;
  return static_cast<std::uint64_t>((of_step * kept.row + problem.positions.first_query + query) *
                                    kept.width);
}

// Bits of one row of a tile, kColumns / 8 bytes: column c is bit c % 8 of byte c / 8; set: it
// stays. `half`: the bytes of columns 8 half .. 8 half + 7 of every 16. One block of the dropout
// decides about four columns, 16 apart.
template <int kColumns>
__device__ void write_kept(const KeptNumbers& kept, std::uint64_t number, int half,
                           unsigned char* to) {
  constexpr int kWords = kColumns / 16;
  const bool upper = number % 64 >= 32;
  unsigned bits[kWords] = {};
  for (int i = 0; i < 8; ++i) {
    const std::uint64_t counter = number / 64 * 16 + static_cast<unsigned>(8 * half + i);
    const uint4 words = philox_words(kept.key, counter);
    const unsigned word[4] = {upper ? words.z : words.x, upper ? words.w : words.y, words.z,
                              words.w};
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      bits[w] |= static_cast<unsigned>(word[w] >= kept.dropped) << i;
    }
  }
#pragma unroll
  for (int w = 0; w < kWords; ++w) to[2 * w + half] = static_cast<unsigned char>(bits[w]);
}

}  // namespace fm::kernels::cuda
