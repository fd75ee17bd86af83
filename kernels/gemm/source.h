// An operand of a product as its packing sees it: vectors (rows of A, columns of B) of terms.
#pragma once

#include <cstdint>

namespace fm::kernels {

struct OperandOffset {
  std::int64_t vector;
  std::int64_t term;
};

// Vectors and terms of a part of an operand.
struct Extent {
  std::int64_t vectors;
  std::int64_t terms;
};

template <class T>
struct Source {
  const T* data;
  std::int64_t stride;
  bool adjacent_terms;  // else adjacent vectors

  // Always inlined: kernels of one instruction set must not share a function with those of others.
  [[gnu::always_inline]] const T* at(std::int64_t vector, std::int64_t term) const {
    return adjacent_terms ? data + vector * stride + term : data + term * stride + vector;
  }
};

}  // namespace fm::kernels
