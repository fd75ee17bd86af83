// Elementwise addition.
#pragma once

#include <cstdint>

namespace fm::kernels {

// into[i] += from[i], i < count.
void add(std::int64_t count, const float* from, float* into);

}  // namespace fm::kernels
