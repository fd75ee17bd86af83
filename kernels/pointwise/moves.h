// Tensors that are cleared or copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/work.h"
#include "kernels/rows.h"

namespace fm::kernels {

// `count` numbers become zero.
void clear(const core::Work& work, std::int64_t count, float* out);

// Sums of fp64 become zero.
inline void clear_sums(const core::Work& work, std::span<double> sums) {
  clear(work, 2 * std::ssize(sums), reinterpret_cast<float*>(sums.data()));
}

void copy_bytes(const core::Work& work, std::int64_t bytes, const void* from, void* to);

// `count` elements; the two do not overlap.
template <class T>
void copy(const core::Work& work, std::int64_t count, const T* from, T* to) {
  copy_bytes(work, count * static_cast<std::int64_t>(sizeof(T)), from, to);
}

// A matrix whose rows begin `stride` elements after each other.
template <class T>
struct SpacedRows {
  T* data = nullptr;
  std::int64_t stride = 0;
};

// `shape.width` bytes of every row; strides are bytes, too. The two do not overlap.
void copy_spaced_bytes(const core::Work& work, RowShape shape, SpacedRows<const std::byte> from,
                       SpacedRows<std::byte> to);

// The two do not overlap.
template <class T>
void copy_rows(const core::Work& work, RowShape shape, SpacedRows<const T> from, SpacedRows<T> to) {
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
  copy_spaced_bytes(work, {shape.rows, shape.width * kSize},
                    {reinterpret_cast<const std::byte*>(from.data), from.stride * kSize},
                    {reinterpret_cast<std::byte*>(to.data), to.stride * kSize});
}

}  // namespace fm::kernels
