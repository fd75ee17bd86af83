// The words of CUDA that kernels use, for blocks that run on this CPU.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "tests/emulated/block.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__ __restrict
#define threadIdx fm::emulated::thread_index()
#define blockIdx fm::emulated::block_index()
#define blockDim fm::emulated::block_shape()
#define gridDim fm::emulated::grid_shape()

using std::max;
using std::min;
using dim3 = fm::emulated::Index;
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

inline float __fmul_rn(float a, float b) { return a * b; }

inline void __syncthreads() { fm::emulated::sync_threads(); }
inline void __syncwarp() { fm::emulated::sync_warp(); }
template <class T>
T fm_exchange(T value, unsigned lane) {
  fm::emulated::put_mail(&value, sizeof(T));
  std::memcpy(&value, fm::emulated::mail_of(lane % 32), sizeof(T));
  return value;
}
template <class T>
T __shfl_sync(unsigned, T value, int lane) {
  return fm_exchange(value, static_cast<unsigned>(lane));
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return fm_exchange(value, fm::emulated::lane() ^ static_cast<unsigned>(mask));
}
template <class T>
T __shfl_down_sync(unsigned, T value, unsigned by) {
  const unsigned from = fm::emulated::lane() + by;
  return fm_exchange(value, from < 32 ? from : fm::emulated::lane());
}
template <class T>
T __shfl_up_sync(unsigned, T value, unsigned by) {
  const unsigned at = fm::emulated::lane();
  return fm_exchange(value, at >= by ? at - by : at);
}
inline unsigned __ballot_sync(unsigned, bool yes) {
  fm::emulated::put_mail(&yes, sizeof(yes));
  unsigned bits = 0;
  for (unsigned i = 0; i < 32; ++i) {
    bool other = false;
    std::memcpy(&other, fm::emulated::mail_of(i), sizeof(other));
    bits |= static_cast<unsigned>(other) << i;
  }
  return bits;
}

template <class T>
T __ldg(const T* from) {
  return *from;
}
// The fast functions of CUDA have errors of a few units; tests against fp64 allow them.
inline float __expf(float x) { return std::exp(x); }
inline float exp2f_fast(float x) { return std::exp2(x); }
inline float __logf(float x) { return std::log(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float rsqrtf(float x) { return 1.0F / std::sqrt(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((std::uint64_t{a} * b) >> 32);
}
