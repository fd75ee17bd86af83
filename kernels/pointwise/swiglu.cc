#include "kernels/pointwise/swiglu.h"

#include <algorithm>

#include "core/element.h"
#include "kernels/float_math.h"
#include "kernels/narrow_rows.h"
#include "kernels/without_work.h"

namespace fm::kernels::FM_SIMD {

using core::Bf16;
using core::F16;

namespace {

// Narrow elements that become fp32 at once. GCC 12 makes no vectors of a loop with both types and
// exp_float(), nor of the loops over fp32 where they are inlined.
constexpr std::int64_t kBlock = 64;

float sigmoid(float x) { return 1.0F / (1.0F + exp_float(-x)); }

[[gnu::noinline]] void forward(std::int64_t count, const float* gate, const float* up, float* y) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = gate[i] * sigmoid(gate[i]) * up[i];
}

[[gnu::noinline]] void backward(std::int64_t count, const SwigluBackward<float>& at) {
  const float* gate = at.gate;
  const float* up = at.up;
  const float* dy = at.dy;
  float* dgate = at.dgate;
  float* dup = at.dup;
  float* y = at.y;
// Outputs that are inputs are so element by element.
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    const float g = gate[i];
    const float s = sigmoid(g);
    const float d = dy[i];
    const float u = up[i];
    const float silu = g * s;
    dup[i] = d * silu;
    y[i] = silu * u;
    dgate[i] = d * u * (s * (1.0F + g * (1.0F - s)));
  }
}

template <class T>
void forward(std::int64_t count, const T* gate, const T* up, T* y) {
  float gates[kBlock];
  float ups[kBlock];
  float products[kBlock];
  for (std::int64_t from = 0; from < count; from += kBlock) {
    const std::int64_t some = std::min(kBlock, count - from);
    convert_row(some, gate + from, gates);
    convert_row(some, up + from, ups);
    forward(some, gates, ups, products);
    convert_row(some, products, y + from);
  }
}

template <class T>
void backward(std::int64_t count, const SwigluBackward<T>& at) {
  float gate[kBlock];
  float up[kBlock];
  float dy[kBlock];
  float dgate[kBlock];
  float dup[kBlock];
  float y[kBlock];
  const SwigluBackward<float> block{gate, up, dy, dgate, dup, y};
  for (std::int64_t from = 0; from < count; from += kBlock) {
    const std::int64_t some = std::min(kBlock, count - from);
    convert_row(some, at.gate + from, gate);
    convert_row(some, at.up + from, up);
    convert_row(some, at.dy + from, dy);
    backward(some, block);
    convert_row(some, dgate, at.dgate + from);
    convert_row(some, dup, at.dup + from);
    convert_row(some, y, at.y + from);
  }
}

}  // namespace

template <class T>
void swiglu(std::int64_t count, const T* gate, const T* up, T* y) {
  forward(count, gate, up, y);
}

template <class T>
void swiglu_backward(std::int64_t count, const SwigluBackward<T>& at) {
  backward(count, at);
}

template WithoutWork<decltype(kernels::swiglu<float>)> swiglu;
template WithoutWork<decltype(kernels::swiglu<Bf16>)> swiglu;
template WithoutWork<decltype(kernels::swiglu<F16>)> swiglu;
template WithoutWork<decltype(kernels::swiglu_backward<float>)> swiglu_backward;
template WithoutWork<decltype(kernels::swiglu_backward<Bf16>)> swiglu_backward;
template WithoutWork<decltype(kernels::swiglu_backward<F16>)> swiglu_backward;

}  // namespace fm::kernels::FM_SIMD
