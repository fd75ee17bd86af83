// SwiGLU (arXiv 2002.05202): y = silu(gate) * up, silu(g) = g * sigmoid(g).
#pragma once

#include <cstdint>

namespace fm::kernels {

// y [count] overlaps neither input.
void swiglu(std::int64_t count, const float* gate, const float* up, float* y);

struct SwigluBackward {
  const float* gate = nullptr;  // [count], of the forward
  const float* up = nullptr;
  const float* dy = nullptr;
  float* dgate = nullptr;  // may be dy
  float* dup = nullptr;
};

// dup = dy * silu(gate); dgate = dy * up * s * (1 + gate * (1 - s)) with s = sigmoid(gate).
void swiglu_backward(std::int64_t count, const SwigluBackward& at);

}  // namespace fm::kernels
