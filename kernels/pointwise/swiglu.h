// SwiGLU (arXiv 2002.05202): y = silu(gate) * up, silu(g) = g * sigmoid(g).
// T is float, core::Bf16 or core::F16 (kernels/pointwise/elements.h).
#pragma once

#include <cstdint>

#include "core/work.h"

namespace fm::kernels {

// y [count] overlaps neither input.
template <class T>
void swiglu(const core::Work& work, std::int64_t count, const T* gate, const T* up, T* y);

template <class T>
struct SwigluBackward {
  const T* gate = nullptr;  // [count], of the forward
  const T* up = nullptr;
  const T* dy = nullptr;
  T* dgate = nullptr;  // may be dy
  T* dup = nullptr;
  T* y = nullptr;  // of the forward, again; may be `up`
};

// dup = dy * silu(gate); dgate = dy * up * s * (1 + gate * (1 - s)) with s = sigmoid(gate).
template <class T>
void swiglu_backward(const core::Work& work, std::int64_t count, const SwigluBackward<T>& at);

}  // namespace fm::kernels
