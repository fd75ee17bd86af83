// Shape of a row-major matrix that a kernel walks row by row.
#pragma once

#include <cstdint>

namespace fm::kernels {

struct RowShape {
  std::int64_t rows = 0;
  std::int64_t width = 0;
};

}  // namespace fm::kernels
