// fp32, bf16 and fp16 numbers in blocks of 8 or 4 bits with one fp32 scale each, as they travel
// between hosts (docs/between_hosts.md).
#pragma once

#include <cstdint>

#include "core/types.h"

namespace fm::kernels {

// A block is stored as q, the whole numbers nearest to x / scale (ties to even), where scale is the
// block's largest magnitude divided by the largest q. So |x - q scale| is at most half a scale:
// 1/254 of that magnitude in 8 bits, 1/14 in 4, but for the rounding of fp32. Blocks without a
// magnitude of kLeastMagnitude become zeros. Where a number is not finite, its whole block is read
// back as NaN.
inline constexpr std::int64_t kQuantBlock = 512;  // scales take 0.8 % of 8 bits, 1.6 % of 4
inline constexpr std::int32_t kMost8 = 127;
inline constexpr std::int32_t kMost4 = 7;
inline constexpr float kLeastMagnitude = 0x1p-100F;

constexpr std::int64_t quant_blocks(std::int64_t count) {
  return core::ceil_div(count, kQuantBlock);
}

// scales [quant_blocks(count)], q [count].
template <class T>
void quantize8(std::int64_t count, const T* x, float* scales, std::int8_t* q);
template <class T>
void dequantize8(std::int64_t count, const float* scales, const std::int8_t* q, T* x);

// Two to a byte, each as q + 8: of a block of n numbers byte i has number i in its lower half and
// number i + ceil(n / 2) in its upper one. q [ceil(count / 2)].
void quantize4(std::int64_t count, const float* x, float* scales, std::uint8_t* q);
void dequantize4(std::int64_t count, const float* scales, const std::uint8_t* q, float* x);

}  // namespace fm::kernels
