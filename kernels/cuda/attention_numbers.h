// Which probabilities stay (kernels/dropout.h), for the kernels of attention.
#pragma once

#include "kernels/cuda/attention.h"
#include "kernels/cuda/philox.h"

namespace fm::kernels::cuda {

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
    const PhiloxWords words = philox(kept.key, counter);
    const unsigned word[4] = {upper ? words.at[2] : words.at[0], upper ? words.at[3] : words.at[1],
                              words.at[2], words.at[3]};
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      bits[w] |= static_cast<unsigned>(word[w] >= kept.dropped) << i;
    }
  }
#pragma unroll
  for (int w = 0; w < kWords; ++w) to[2 * w + half] = static_cast<unsigned char>(bits[w]);
}

}  // namespace fm::kernels::cuda
