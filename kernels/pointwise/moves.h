// Tensors that are cleared or copied. A backend of another device replaces moves.cc.
#pragma once

#include <cstdint>

#include "core/work.h"

namespace fm::kernels {

// `count` numbers become zero.
void clear(const core::Work& work, std::int64_t count, float* out);

void copy_bytes(const core::Work& work, std::int64_t bytes, const void* from, void* to);

// `count` elements; the two do not overlap.
template <class T>
void copy(const core::Work& work, std::int64_t count, const T* from, T* to) {
  copy_bytes(work, count * static_cast<std::int64_t>(sizeof(T)), from, to);
}

}  // namespace fm::kernels
