#include "kernels/pointwise/activations.h"

#include <algorithm>

#include "core/element.h"
#include "kernels/float_math.h"
#include "kernels/narrow_rows.h"
#include "kernels/without_work.h"

namespace fm::kernels::FM_SIMD {

using core::Bf16;
using core::F16;

namespace {

constexpr std::int64_t kBlock = 64;  // elements that are fp32 at once, as in swiglu.cc

[[gnu::always_inline]] inline float sigmoid(float x) { return 1.0F / (1.0F + exp_float(-x)); }

// Value and slope at x.
struct Point {
  float value;
  float slope;
};

struct Silu {
  [[gnu::always_inline]] static Point at(float x) {
    const float s = sigmoid(x);
    return {x * s, s * (1.0F + x * (1.0F - s))};
  }
};

struct Gelu {
  [[gnu::always_inline]] static Point at(float x) {
    constexpr float kRootHalf = 0.70710678118654752F;
    constexpr float kDensity = 0.39894228040143268F;  // 1 / sqrt(2 pi)
    const float share = 0.5F * (1.0F + erf_float(x * kRootHalf));
    const float density = kDensity * exp_float(-0.5F * x * x);
    return {x * share, share + x * density};
  }
};

// 0.5 (1 + tanh(u)) is sigmoid(2 u).
struct GeluTanh {
  [[gnu::always_inline]] static Point at(float x) {
    constexpr float kTwice = 1.59576912160573071F;  // 2 sqrt(2 / pi)
    constexpr float kCubic = 0.044715F;
    const float square = x * x;
    const float s = sigmoid(kTwice * (x + kCubic * x * square));
    const float inner = kTwice * (1.0F + 3.0F * kCubic * square);
    return {x * s, s + x * (s * (1.0F - s)) * inner};
  }
};

struct Relu {
  [[gnu::always_inline]] static Point at(float x) {
    return {x > 0.0F ? x : 0.0F, x > 0.0F ? 1.0F : 0.0F};
  }
};

// Outputs of these four may be inputs, element by element. Not inlined: GCC 12 makes no vectors of
// the loops where they are.
template <class Act>
[[gnu::noinline]] void values(std::int64_t count, const float* x, float* y) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = Act::at(x[i]).value;
}

template <class Act>
[[gnu::noinline]] void slopes(std::int64_t count, const ActivateBackward<float>& at) {
  const float* x = at.x;
  const float* dy = at.dy;
  float* dx = at.dx;
  float* y = at.y;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    const Point point = Act::at(x[i]);
    dx[i] = dy[i] * point.slope;
    y[i] = point.value;
  }
}

template <class Act>
[[gnu::noinline]] void products(std::int64_t count, const float* gate, const float* up, float* y) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = Act::at(gate[i]).value * up[i];
}

template <class Act>
[[gnu::noinline]] void product_slopes(std::int64_t count, const SwigluBackward<float>& at) {
  const float* gate = at.gate;
  const float* up = at.up;
  const float* dy = at.dy;
  float* dgate = at.dgate;
  float* dup = at.dup;
  float* y = at.y;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    const Point point = Act::at(gate[i]);
    const float d = dy[i];
    const float u = up[i];
    dup[i] = d * point.value;
    y[i] = point.value * u;
    dgate[i] = d * u * point.slope;
  }
}

// Narrow elements block by block in fp32: `inputs` become arrays, run(some, in, out) fills others.
template <int kInputs, int kOutputs, class T, class Run>
void in_blocks(std::int64_t count, const T* const (&inputs)[kInputs], T* const (&outputs)[kOutputs],
               const Run& run) {
  float in[kInputs][kBlock];
  float out[kOutputs][kBlock];
  for (std::int64_t from = 0; from < count; from += kBlock) {
    const std::int64_t some = std::min(kBlock, count - from);
    for (int i = 0; i < kInputs; ++i) convert_row(some, inputs[i] + from, in[i]);
    run(some, in, out);
    for (int i = 0; i < kOutputs; ++i) convert_row(some, out[i], outputs[i] + from);
  }
}

template <class Act>
struct Kernels {
  template <class T>
  static void activate(std::int64_t count, const T* x, T* y) {
    if constexpr (std::is_same_v<T, float>) {
      values<Act>(count, x, y);
    } else {
      in_blocks<1, 1, T>(count, {x}, {y}, [](std::int64_t some, auto& in, auto& out) {
        values<Act>(some, in[0], out[0]);
      });
    }
  }
  template <class T>
  static void activate_backward(std::int64_t count, const ActivateBackward<T>& at) {
    if constexpr (std::is_same_v<T, float>) {
      slopes<Act>(count, at);
    } else {
      in_blocks<2, 2, T>(count, {at.x, at.dy}, {at.dx, at.y},
                         [](std::int64_t some, auto& in, auto& out) {
                           slopes<Act>(some, {in[0], in[1], out[0], out[1]});
                         });
    }
  }
  template <class T>
  static void glu(std::int64_t count, const T* gate, const T* up, T* y) {
    if constexpr (std::is_same_v<T, float>) {
      products<Act>(count, gate, up, y);
    } else {
      in_blocks<2, 1, T>(count, {gate, up}, {y}, [](std::int64_t some, auto& in, auto& out) {
        products<Act>(some, in[0], in[1], out[0]);
      });
    }
  }
  template <class T>
  static void glu_backward(std::int64_t count, const SwigluBackward<T>& at) {
    if constexpr (std::is_same_v<T, float>) {
      product_slopes<Act>(count, at);
    } else {
      in_blocks<3, 3, T>(count, {at.gate, at.up, at.dy}, {at.dgate, at.dup, at.y},
                         [](std::int64_t some, auto& in, auto& out) {
                           product_slopes<Act>(some, {in[0], in[1], in[2], out[0], out[1], out[2]});
                         });
    }
  }
};

template <class Run>
[[gnu::always_inline]] inline void choose(Activation kind, const Run& run) {
  switch (kind) {
    case Activation::kSilu: run(Kernels<Silu>()); break;
    case Activation::kGelu: run(Kernels<Gelu>()); break;
    case Activation::kGeluTanh: run(Kernels<GeluTanh>()); break;
    case Activation::kRelu: run(Kernels<Relu>()); break;
  }
}

}  // namespace

template <class T>
void activate(Activation kind, std::int64_t count, const T* x, T* y) {
  choose(kind, [&](auto kernels) { kernels.activate(count, x, y); });
}

template <class T>
void activate_backward(Activation kind, std::int64_t count, const ActivateBackward<T>& at) {
  choose(kind, [&](auto kernels) { kernels.activate_backward(count, at); });
}

template <class T>
void glu(Activation kind, std::int64_t count, const T* gate, const T* up, T* y) {
  choose(kind, [&](auto kernels) { kernels.glu(count, gate, up, y); });
}

template <class T>
void glu_backward(Activation kind, std::int64_t count, const SwigluBackward<T>& at) {
  choose(kind, [&](auto kernels) { kernels.glu_backward(count, at); });
}

template WithoutWork<decltype(kernels::activate<float>)> activate;
template WithoutWork<decltype(kernels::activate<Bf16>)> activate;
template WithoutWork<decltype(kernels::activate<F16>)> activate;
template WithoutWork<decltype(kernels::activate_backward<float>)> activate_backward;
template WithoutWork<decltype(kernels::activate_backward<Bf16>)> activate_backward;
template WithoutWork<decltype(kernels::activate_backward<F16>)> activate_backward;
template WithoutWork<decltype(kernels::glu<float>)> glu;
template WithoutWork<decltype(kernels::glu<Bf16>)> glu;
template WithoutWork<decltype(kernels::glu<F16>)> glu;
template WithoutWork<decltype(kernels::glu_backward<float>)> glu_backward;
template WithoutWork<decltype(kernels::glu_backward<Bf16>)> glu_backward;
template WithoutWork<decltype(kernels::glu_backward<F16>)> glu_backward;

}  // namespace fm::kernels::FM_SIMD
