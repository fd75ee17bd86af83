// Walks over elements: 16 bytes and more at a time where the arrays are aligned, in loops over the
// whole grid.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/cuda/launch.h"

namespace fm::kernels::cuda {

inline constexpr int kWalkThreads = 256;
inline constexpr int kWalkBlocks = 8;  // per multiprocessor

// kCount neighbours in registers.
template <class T, int kCount>
struct Pack {
  T at[kCount];
};

// By accesses of 16 bytes where kCount elements have as many, else one by one.
template <int kCount, class T>
__device__ __forceinline__ Pack<T, kCount> load(const T* from) {
  Pack<T, kCount> pack;
  constexpr int kBytes = kCount * static_cast<int>(sizeof(T));
  if constexpr (kBytes % 16 == 0) {
#pragma unroll
    for (int i = 0; i < kBytes / 16; ++i) {
      const uint4 bits = reinterpret_cast<const uint4*>(from)[i];
      memcpy(reinterpret_cast<unsigned char*>(pack.at) + 16 * i, &bits, 16);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) pack.at[i] = from[i];
  }
  return pack;
}
template <int kCount, class T>
__device__ __forceinline__ void store(T* to, const Pack<T, kCount>& pack) {
  constexpr int kBytes = kCount * static_cast<int>(sizeof(T));
  if constexpr (kBytes % 16 == 0) {
#pragma unroll
    for (int i = 0; i < kBytes / 16; ++i) {
      uint4 bits;
      memcpy(&bits, reinterpret_cast<const unsigned char*>(pack.at) + 16 * i, 16);
      store_16(reinterpret_cast<uint4*>(to) + i, bits);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) to[i] = pack.at[i];
  }
}

// Calls body.run<kWidth>(i) for i = 0, kWidth, 2 kWidth, ... and run<1>(i) for what is left.
template <int kWidth, class Body>
__global__ void __launch_bounds__(kWalkThreads, 2) walk_elements(std::int64_t count, Body body) {
  const std::int64_t first = std::int64_t{blockIdx.x} * kWalkThreads + threadIdx.x;
  const std::int64_t stride = std::int64_t{gridDim.x} * kWalkThreads;
  const std::int64_t packs = count / kWidth;
  for (std::int64_t i = first; i < packs; i += stride) body.template run<kWidth>(i * kWidth);
  if constexpr (kWidth > 1) {
    for (std::int64_t i = packs * kWidth + first; i < count; i += stride) body.template run<1>(i);
  }
}

// How many blocks walk `items` things, one per thread.
inline unsigned walk_blocks(const core::Work& work, std::int64_t items,
                            std::int64_t threads = kWalkThreads) {
  const std::int64_t most = std::int64_t{kWalkBlocks} * multiprocessors(work);
  return static_cast<unsigned>(std::clamp(core::ceil_div(items, threads), std::int64_t{1}, most));
}

// Whether accesses of 16 bytes may begin at all of them; null may.
template <class... T>
bool aligned(const T*... arrays) {
  return ((reinterpret_cast<std::uintptr_t>(arrays) % 16 == 0) && ...);
}

// Body: an aggregate of numbers and pointers with `template <int kWidth> void run(int64) const`,
// which loads and stores kWidth elements from there on. `wide`: whether its arrays are aligned.
template <int kWidth, class Body>
void walk(const core::Work& work, const char* name, std::int64_t count, bool wide,
          const Body& body) {
  if (count == 0) return;
  if (wide) {
    launch(work, name, {{walk_blocks(work, core::ceil_div(count, kWidth)), 1, 1}},
           walk_elements<kWidth, Body>, count, body);
  } else {
    launch(work, name, {{walk_blocks(work, count), 1, 1}}, walk_elements<1, Body>, count, body);
  }
}

}  // namespace fm::kernels::cuda
