// Random numbers of dropout (core/philox.h), in kernels.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"

namespace fm::kernels::cuda {

// core::philox of a counter, whose upper two words are 0.
struct PhiloxWords {
  std::uint32_t at[4];
};
__device__ __forceinline__ PhiloxWords philox(std::uint64_t key, std::uint64_t counter) {
  PhiloxWords words{
      {static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), 0, 0}};
  auto key0 = static_cast<std::uint32_t>(key);
  auto key1 = static_cast<std::uint32_t>(key >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53U} * words.at[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57U} * words.at[2];
    words.at[0] = static_cast<std::uint32_t>(product1 >> 32) ^ words.at[1] ^ key0;
    words.at[1] = static_cast<std::uint32_t>(product1);
    words.at[2] = static_cast<std::uint32_t>(product0 >> 32) ^ words.at[3] ^ key1;
    words.at[3] = static_cast<std::uint32_t>(product0);
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return words;
}

}  // namespace fm::kernels::cuda
