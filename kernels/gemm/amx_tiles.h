// The eight tiles of a thread: 0 to 3 are a corner of 32 x 32 sums, 4 and 5 parts of the left
// factor, 6 and 7 of the right one (kernels/gemm/amx_strips.h).
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/gemm/amx_strips.h"

namespace fm::kernels::amx {

// What a thread tells the CPU about its tiles: all eight are whole. A constant, because compilers
// believe that _tile_loadconfig() reads its first eight bytes only.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileShapes) == 64 && kRowBytes == 64 && kSide == 16);
inline constexpr TileShapes kTileShapes;

// The tiles of a thread, for the time of a product.
class Tiles {
 public:
  Tiles() { _tile_loadconfig(&kTileShapes); }
  ~Tiles() { _tile_release(); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;
};

// GCC does not know that _tile_loadd reads memory: what was written before a corner is begun must
// be there when its operands are loaded.
[[gnu::always_inline]] inline void see_stores() { asm volatile("" ::: "memory"); }

[[gnu::always_inline]] inline void load_left(const std::byte* part) {
  _tile_loadd(4, part, kRowBytes);
  _tile_loadd(5, part + kTileBytes, kRowBytes);
}
[[gnu::always_inline]] inline void load_right(const std::byte* part) {
  _tile_loadd(6, part, kRowBytes);
  _tile_loadd(7, part + kTileBytes, kRowBytes);
}
[[gnu::always_inline]] inline void multiply() {
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  _tile_dpbf16ps(2, 5, 6);
  _tile_dpbf16ps(3, 5, 7);
}

// Adds one step of two strips to the corner. The six products of parts are ordered so that each
// follows with one new operand, the small ones first. meanwhile(i) is called after product i.
template <class Meanwhile>
[[gnu::always_inline]] inline void multiply_step(const std::byte* left, const std::byte* right,
                                                 const Meanwhile& meanwhile) {
  load_left(left + 2 * kPartBytes);
  load_right(right);
  multiply();  // low x high
  meanwhile(0);
  load_left(left + kPartBytes);
  multiply();  // middle x high
  meanwhile(1);
  load_right(right + kPartBytes);
  multiply();  // middle x middle
  meanwhile(2);
  load_left(left);
  multiply();  // high x middle
  meanwhile(3);
  load_right(right);
  multiply();  // high x high
  meanwhile(4);
  load_right(right + 2 * kPartBytes);
  multiply();  // high x low
  meanwhile(5);
}

// The same of bf16: one product.
template <class Meanwhile>
[[gnu::always_inline]] inline void multiply_bf16_step(const std::byte* left, const std::byte* right,
                                                      const Meanwhile& meanwhile) {
  load_left(left);
  load_right(right);
  multiply();
  meanwhile(0);
}

[[gnu::always_inline]] inline void zero_corner() {
  see_stores();
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}
[[gnu::always_inline]] inline void load_corner(const float* from, std::int64_t stride) {
  const auto row_bytes = static_cast<std::size_t>(stride) * sizeof(float);
  see_stores();
  _tile_loadd(0, from, row_bytes);
  _tile_loadd(1, from + kSide, row_bytes);
  _tile_loadd(2, from + kSide * stride, row_bytes);
  _tile_loadd(3, from + kSide * stride + kSide, row_bytes);
}
[[gnu::always_inline]] inline void store_corner(float* to, std::int64_t stride) {
  const auto row_bytes = static_cast<std::size_t>(stride) * sizeof(float);
  _tile_stored(0, to, row_bytes);
  _tile_stored(1, to + kSide, row_bytes);
  _tile_stored(2, to + kSide * stride, row_bytes);
  _tile_stored(3, to + kSide * stride + kSide, row_bytes);
}

}  // namespace fm::kernels::amx
