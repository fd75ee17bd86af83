// Blocks of one head: turned, copied out of [T, heads, d] arrays and back, and their future hidden.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "kernels/vector.h"

namespace fm::kernels::FM_SIMD {

// A square of numbers in registers, turned.

// Lanes and rows whose numbers differ in the bit Step change places, then those of the next bits.
template <int Step, int... Lane>
[[gnu::always_inline]] inline void transpose(Vector (&square)[kVectorFloats],
                                             std::integer_sequence<int, Lane...> lanes) {
  constexpr int kOther = kVectorFloats;  // lanes of the second vector are numbered from here
#pragma GCC unroll 16
  for (int i = 0; i < kVectorFloats; ++i) {
    if ((i & Step) != 0) continue;
    const Vector one = square[i];
    const Vector other = square[i + Step];
    square[i] =
        __builtin_shufflevector(one, other, ((Lane & Step) != 0 ? kOther + Lane - Step : Lane)...);
    square[i + Step] =
        __builtin_shufflevector(one, other, ((Lane & Step) != 0 ? kOther + Lane : Lane + Step)...);
  }
  if constexpr (2 * Step < kVectorFloats) transpose<2 * Step>(square, lanes);
}

// Rows of one head, copied out of [T, heads, d] arrays into padded blocks and back.

// `count` rows of `width` elements, `stride` apart in a larger array.
template <class Float>
struct StridedRows {
  Float* data = nullptr;
  std::int64_t stride = 0;
  std::int64_t count = 0;
  std::int64_t width = 0;
};

// A packed block: `rows` x `columns`, side by side, zero beyond what it holds.
struct PackedBlock {
  float* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

// Where a row that is asked for shall wait, in the numbers of __builtin_prefetch.
enum Cache : std::uint8_t { kSecondCache = 2, kFirstCache = 3 };

// The rows lie far apart, where no CPU looks ahead by itself; a row that does not exist may be
// asked for.
template <bool kWrite = false, Cache kWhere = kFirstCache, class Float>
[[gnu::always_inline]] inline void ask_for_row(const StridedRows<Float>& rows, std::int64_t row) {
  constexpr std::int64_t kLine = 16;
  const Float* const first = rows.data + row * rows.stride;
  for (std::int64_t i = 0; i < rows.width; i += kLine) {
    __builtin_prefetch(first + i, kWrite, kWhere);
  }
}
inline constexpr std::int64_t kRowsAhead = 8;

[[gnu::always_inline]] inline void pack(const StridedRows<const float>& from, float factor,
                                        const PackedBlock& to) {
  for (std::int64_t i = 0; i < from.count; ++i) {
    ask_for_row(from, i + kRowsAhead);
    const float* row = from.data + i * from.stride;
    float* packed = to.data + i * to.columns;
    for (std::int64_t j = 0; j < from.width; ++j) packed[j] = row[j] * factor;
    for (std::int64_t j = from.width; j < to.columns; ++j) packed[j] = 0.0F;
  }
  std::fill(to.data + from.count * to.columns, to.data + to.rows * to.columns, 0.0F);
}

[[gnu::always_inline]] inline void unpack(const PackedBlock& from, float factor,
                                          const StridedRows<float>& to) {
  for (std::int64_t i = 0; i < to.count; ++i) {
    ask_for_row<true>(to, i + kRowsAhead);
    const float* packed = from.data + i * from.columns;
    float* row = to.data + i * to.stride;
    for (std::int64_t j = 0; j < to.width; ++j) row[j] = packed[j] * factor;
  }
}

// to [width, count] = from [count, width] transposed.
[[gnu::always_inline]] inline void pack_transposed(const StridedRows<const float>& from,
                                                   const PackedBlock& to) {
  std::int64_t row = 0;
  for (; row + kVectorFloats <= from.count; row += kVectorFloats) {
    for (int i = 0; i < kVectorFloats; ++i) ask_for_row(from, row + kVectorFloats + i);
    std::int64_t column = 0;
    for (; column + kVectorFloats <= from.width; column += kVectorFloats) {
      Vector square[kVectorFloats];
#pragma GCC unroll 16
      for (int i = 0; i < kVectorFloats; ++i) {
        square[i] = load(from.data + (row + i) * from.stride + column);
      }
      transpose<1>(square, kEveryLane);
#pragma GCC unroll 16
      for (int i = 0; i < kVectorFloats; ++i) {
        store(square[i], to.data + (column + i) * to.columns + row);
      }
    }
    for (; column < from.width; ++column) {
      for (int i = 0; i < kVectorFloats; ++i) {
        to.data[column * to.columns + row + i] = from.data[(row + i) * from.stride + column];
      }
    }
  }
  for (std::int64_t column = 0; column < from.width; ++column) {
    float* packed = to.data + column * to.columns;
    for (std::int64_t i = row; i < from.count; ++i) packed[i] = from.data[i * from.stride + column];
    for (std::int64_t i = from.count; i < to.columns; ++i) packed[i] = 0.0F;
  }
  std::fill(to.data + from.width * to.columns, to.data + to.rows * to.columns, 0.0F);
}

// What a query of causal attention does not see.

template <int... Lane>
[[gnu::always_inline]] inline Vector lane_numbers(std::integer_sequence<int, Lane...>) {
  return Vector{Lane...};
}

// Scores of one query, `width` of them (a multiple of kVectorFloats): those from `first` on become
// -infinity.
[[gnu::always_inline]] inline void hide_from(float* scores, std::int64_t first,
                                             std::int64_t width) {
  const Vector hidden = splat(-std::numeric_limits<float>::infinity());
  const Vector lanes = lane_numbers(kEveryLane);
  for (std::int64_t i = first / kVectorFloats * kVectorFloats; i < width; i += kVectorFloats) {
    const Vector seen = splat(static_cast<float>(first - i));
    store(lanes < seen ? load(scores + i) : hidden, scores + i);
  }
}

// Those before `first` become -infinity; none where it is 0 or less.
[[gnu::always_inline]] inline void hide_before(float* scores, std::int64_t first,
                                               std::int64_t width) {
  const Vector hidden = splat(-std::numeric_limits<float>::infinity());
  const Vector lanes = lane_numbers(kEveryLane);
  for (std::int64_t i = 0; i < std::min(first, width); i += kVectorFloats) {
    const Vector unseen = splat(static_cast<float>(first - i));
    store(lanes < unseen ? hidden : load(scores + i), scores + i);
  }
}

}  // namespace fm::kernels::FM_SIMD
