// Activations of an MLP, plain: y = act(x), and gated: y = act(gate) * up (arXiv 2002.05202).
// T as in elements.h. SwiGLU is in swiglu.h.
#pragma once

#include <cstdint>

#include "core/work.h"
#include "kernels/pointwise/swiglu.h"
#include "kernels/rows.h"

namespace fm::kernels {

// silu(x) = x sigmoid(x); gelu(x) = x Phi(x) (arXiv 1606.08415) with erf, or with the tanh that
// approximates it; relu(x) = max(x, 0).
enum class Activation : std::uint8_t { kSilu, kGelu, kGeluTanh, kRelu };

// y [count] overlaps no input.
template <class T>
void activate(const core::Work& work, Activation kind, std::int64_t count, const T* x, T* y);

template <class T>
struct ActivateBackward {
  const T* x = nullptr;  // [count], of the forward
  const T* dy = nullptr;
  T* dx = nullptr;  // may be dy
  T* y = nullptr;   // of the forward, again; may be x
};
// dx = dy * act'(x).
template <class T>
void activate_backward(const core::Work& work, Activation kind, std::int64_t count,
                       const ActivateBackward<T>& at);

// y [count] overlaps neither input. kSilu is SwiGLU.
template <class T>
void glu(const core::Work& work, Activation kind, std::int64_t count, const T* gate, const T* up,
         T* y);

// dup = dy * act(gate); dgate = dy * up * act'(gate).
template <class T>
void glu_backward(const core::Work& work, Activation kind, std::int64_t count,
                  const SwigluBackward<T>& at);

// The same of rows of gate and up that begin `stride` elements after each other, as halves of one
// array do. y [rows, width] has no gaps.
struct GatedShape {
  RowShape rows;
  std::int64_t stride = 0;
};
template <class T>
void glu_rows(const core::Work& work, Activation kind, const GatedShape& shape, const T* gate,
              const T* up, T* y);
// All arrays have that stride.
template <class T>
void glu_rows_backward(const core::Work& work, Activation kind, const GatedShape& shape,
                       const SwigluBackward<T>& at);

}  // namespace fm::kernels
