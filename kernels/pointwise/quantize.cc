// Operations on integers, one division per block, and products and additions that round once, so
// that every instruction set gives the same bits.
#include "kernels/pointwise/quantize.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "core/element.h"
#include "kernels/narrow_rows.h"

namespace fm::kernels::FM_SIMD {
namespace {

struct Scales {
  float stored;   // what a q is multiplied by
  float inverse;  // what a number is multiplied by
};

// As integers, magnitudes have the order of the numbers; those that are not finite come last.
[[gnu::always_inline]] inline Scales scales_of(std::int64_t count, const float* x, float most) {
  std::int32_t largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto bits = static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(x[i]) & 0x7FFFFFFFU);
    largest = bits > largest ? bits : largest;
  }
  if (largest >= 0x7F800000) return {std::numeric_limits<float>::quiet_NaN(), 0.0F};
  const float magnitude = std::bit_cast<float>(largest);
  if (magnitude < kLeastMagnitude) return {0.0F, 0.0F};
  return {magnitude / most, most / magnitude};
}

// The nearest whole number of |value| < 2^22, ties to even: an addition leaves no bits behind the
// point.
[[gnu::always_inline]] inline std::int32_t nearest(float value) {
  constexpr float kShift = 0x1.8p23F;
  return static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(value + kShift)) -
         static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(kShift));
}

// A number whose product is no number (one of a block that is not finite) has any q.
[[gnu::always_inline]] inline std::int32_t limited(std::int32_t q, std::int32_t most) {
  q = q > most ? most : q;
  return q < -most ? -most : q;
}

// The block itself, or its numbers in fp32.
[[gnu::always_inline]] inline const float* in_fp32(std::int64_t, const float* x, float*) {
  return x;
}
template <class T>
[[gnu::always_inline]] inline const float* in_fp32(std::int64_t count, const T* x, float* room) {
  convert_row(count, x, room);
  return room;
}

}  // namespace

template <class T>
void quantize8(std::int64_t count, const T* x, float* scales, std::int8_t* q) {
  float room[kQuantBlock];
  for (std::int64_t at = 0; at < count; at += kQuantBlock) {
    const std::int64_t here = std::min(kQuantBlock, count - at);
    const float* const block = in_fp32(here, x + at, room);
    const Scales scale = scales_of(here, block, static_cast<float>(kMost8));
    *scales++ = scale.stored;
    std::int8_t* __restrict out = q + at;
    for (std::int64_t i = 0; i < here; ++i) {
      out[i] = static_cast<std::int8_t>(limited(nearest(block[i] * scale.inverse), kMost8));
    }
  }
}

template <class T>
void dequantize8(std::int64_t count, const float* scales, const std::int8_t* q, T* x) {
  for (std::int64_t at = 0; at < count; at += kQuantBlock) {
    const std::int64_t here = std::min(kQuantBlock, count - at);
    const float scale = *scales++;
    const std::int8_t* __restrict in = q + at;
    float room[kQuantBlock];
    for (std::int64_t i = 0; i < here; ++i) room[i] = static_cast<float>(in[i]) * scale;
    convert_row(here, room, x + at);
  }
}

template void quantize8(std::int64_t, const float*, float*, std::int8_t*);
template void quantize8(std::int64_t, const core::Bf16*, float*, std::int8_t*);
template void quantize8(std::int64_t, const core::F16*, float*, std::int8_t*);
template void dequantize8(std::int64_t, const float*, const std::int8_t*, float*);
template void dequantize8(std::int64_t, const float*, const std::int8_t*, core::Bf16*);
template void dequantize8(std::int64_t, const float*, const std::int8_t*, core::F16*);

void quantize4(std::int64_t count, const float* x, float* scales, std::uint8_t* q) {
  for (std::int64_t at = 0; at < count; at += kQuantBlock) {
    const std::int64_t here = std::min(kQuantBlock, count - at);
    const Scales scale = scales_of(here, x + at, static_cast<float>(kMost4));
    *scales++ = scale.stored;
    const std::int64_t half = (here + 1) / 2;
    const float* __restrict low = x + at;
    const float* __restrict high = low + half;
    std::uint8_t* __restrict out = q + at / 2;
    for (std::int64_t i = 0; i < here - half; ++i) {
      const std::int32_t first = limited(nearest(low[i] * scale.inverse), kMost4) + 8;
      const std::int32_t second = limited(nearest(high[i] * scale.inverse), kMost4) + 8;
      out[i] = static_cast<std::uint8_t>(first | (second << 4));
    }
    if (here % 2 == 0) continue;
    const std::int32_t last = limited(nearest(low[half - 1] * scale.inverse), kMost4) + 8;
    out[half - 1] = static_cast<std::uint8_t>(last | 0x80);
  }
}

void dequantize4(std::int64_t count, const float* scales, const std::uint8_t* q, float* x) {
  for (std::int64_t at = 0; at < count; at += kQuantBlock) {
    const std::int64_t here = std::min(kQuantBlock, count - at);
    const float scale = *scales++;
    const std::int64_t half = (here + 1) / 2;
    const std::uint8_t* __restrict in = q + at / 2;
    float* __restrict low = x + at;
    float* __restrict high = low + half;
    const auto number = [scale](std::int32_t shifted) {
      return static_cast<float>(shifted - 8) * scale;
    };
    for (std::int64_t i = 0; i < here - half; ++i) {
      low[i] = number(in[i] & 0xF);
      high[i] = number(in[i] >> 4);
    }
    if (here % 2 != 0) low[half - 1] = number(in[half - 1] & 0xF);
  }
}

}  // namespace fm::kernels::FM_SIMD
