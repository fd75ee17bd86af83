// Writes a finished sum into a gradient by the rule of `write`.
#pragma once

#include <algorithm>

#include "kernels/pointwise/sums.h"
#include "model/unit.h"

namespace fm::model {

inline void write_vector(std::int64_t count, const float* sum, float* gradient, Write write) {
  switch (write) {
    case Write::kAssign: std::copy_n(sum, count, gradient); break;
    case Write::kAdd: kernels::add(count, sum, gradient); break;
  }
}

}  // namespace fm::model
