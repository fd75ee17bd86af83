// Tensors that are cleared or copied. A backend of another device replaces moves.cc.
#pragma once

#include <cstdint>

#include "core/work.h"
#include "kernels/rows.h"

namespace fm::kernels {

// `count` numbers become zero.
void clear(const core::Work& work, std::int64_t count, float* out);

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

// The two do not overlap.
template <class T>
void copy_rows(const core::Work& work, RowShape shape, SpacedRows<const T> from, SpacedRows<T> to) {
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    copy(work, shape.width, from.data + row * from.stride, to.data + row * to.stride);
  }
}

}  // namespace fm::kernels
