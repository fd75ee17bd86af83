#include "kernels/swiglu.h"

#include "core/bf16.h"
#include "kernels/exp_float.h"

namespace fm::kernels::FM_SIMD {

using core::Bf16;
using core::to_element;
using core::to_float;

namespace {

float sigmoid(float x) { return 1.0F / (1.0F + exp_float(-x)); }

}  // namespace

template <class T>
void swiglu(std::int64_t count, const T* gate, const T* up, T* y) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float g = to_float(gate[i]);
    y[i] = to_element<T>(g * sigmoid(g) * to_float(up[i]));
  }
}

template <class T>
void swiglu_backward(std::int64_t count, const SwigluBackward<T>& at) {
  const T* gate = at.gate;
  const T* up = at.up;
  const T* dy = at.dy;
  T* dgate = at.dgate;
  T* dup = at.dup;
  for (std::int64_t i = 0; i < count; ++i) {
    const float g = to_float(gate[i]);
    const float s = sigmoid(g);
    const float d = to_float(dy[i]);
    const float u = to_float(up[i]);
    dup[i] = to_element<T>(d * (g * s));
    dgate[i] = to_element<T>(d * u * (s * (1.0F + g * (1.0F - s))));
  }
}

template decltype(kernels::swiglu<float>) swiglu;
template decltype(kernels::swiglu<Bf16>) swiglu;
template decltype(kernels::swiglu_backward<float>) swiglu_backward;
template decltype(kernels::swiglu_backward<Bf16>) swiglu_backward;

}  // namespace fm::kernels::FM_SIMD
