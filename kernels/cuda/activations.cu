// Activations of an MLP, plain and gated (kernels/pointwise/activations.h, swiglu.h), in one pass
// over their arrays.
#include "kernels/cuda/table.h"
#include "kernels/cuda/walk.h"
#include "kernels/pointwise/activations.h"

namespace fm::kernels::cuda {
namespace {

template <class T>
constexpr int kWide = 16 / static_cast<int>(sizeof(T));

// 0 and 1 far from 0: the quotient of 1 and infinity is 0.
__device__ __forceinline__ float sigmoid(float x) { return __fdividef(1.0F, 1.0F + __expf(-x)); }

// Value and slope at x.
struct ActivationPoint {
  float value;
  float slope;
};

struct Silu {
  static __device__ __forceinline__ ActivationPoint at(float x) {
    const float s = sigmoid(x);
    return {x * s, s * (1.0F + x * (1.0F - s))};
  }
};

struct Gelu {
  static __device__ __forceinline__ ActivationPoint at(float x) {
    constexpr float kRootHalf = 0.70710678118654752F;
    constexpr float kDensity = 0.39894228040143268F;  // 1 / sqrt(2 pi)
    const float share = 0.5F * (1.0F + erff(x * kRootHalf));
    const float density = kDensity * __expf(-0.5F * x * x);
    return {x * share, share + x * density};
  }
};

// 0.5 (1 + tanh(u)) is sigmoid(2 u).
struct GeluTanh {
  static __device__ __forceinline__ ActivationPoint at(float x) {
    constexpr float kTwice = 1.59576912160573071F;  // 2 sqrt(2 / pi)
    constexpr float kCubic = 0.044715F;
    const float square = x * x;
    const float s = sigmoid(kTwice * (x + kCubic * x * square));
    const float inner = kTwice * (1.0F + 3.0F * kCubic * square);
    return {x * s, s + x * (s * (1.0F - s)) * inner};
  }
};

struct Relu {
  static __device__ __forceinline__ ActivationPoint at(float x) {
    return {x > 0.0F ? x : 0.0F, x > 0.0F ? 1.0F : 0.0F};
  }
};

// Outputs may be inputs, element by element: all of a pack is loaded before any of it is stored.
template <class Act, class T>
struct Values {
  const T* x;
  T* y;
  template <int kWidth>
  __device__ void run(std::int64_t at) const {
    auto pack = load<kWidth>(x + at);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      pack.at[i] = narrowed<T>(Act::at(widened(pack.at[i])).value);
    }
    store(y + at, pack);
  }
};

template <class Act, class T>
struct Slopes {
  ActivateBackward<T> of;
  template <int kWidth>
  __device__ void run(std::int64_t at) const {
    auto x = load<kWidth>(of.x + at);
    auto dy = load<kWidth>(of.dy + at);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const ActivationPoint point = Act::at(widened(x.at[i]));
      dy.at[i] = narrowed<T>(widened(dy.at[i]) * point.slope);
      x.at[i] = narrowed<T>(point.value);
    }
    store(of.dx + at, dy);
    store(of.y + at, x);
  }
};

template <class Act, class T>
struct GatedProducts {
  const T* gate;
  const T* up;
  T* y;
  template <int kWidth>
  __device__ void run(std::int64_t at) const {
    auto gates = load<kWidth>(gate + at);
    const auto ups = load<kWidth>(up + at);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float value = Act::at(widened(gates.at[i])).value;
      gates.at[i] = narrowed<T>(value * widened(ups.at[i]));
    }
    store(y + at, gates);
  }
};

template <class Act, class T>
struct ProductSlopes {
  SwigluBackward<T> of;
  template <int kWidth>
  __device__ void run(std::int64_t at) const {
    auto gate = load<kWidth>(of.gate + at);
    auto up = load<kWidth>(of.up + at);
    auto dy = load<kWidth>(of.dy + at);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const ActivationPoint point = Act::at(widened(gate.at[i]));
      const float d = widened(dy.at[i]);
      const float u = widened(up.at[i]);
      gate.at[i] = narrowed<T>(u * point.slope * d);
      up.at[i] = narrowed<T>(point.value * u);
      dy.at[i] = narrowed<T>(d * point.value);
    }
    store(of.dgate + at, gate);
    store(of.dup + at, dy);
    store(of.y + at, up);
  }
};

// run() of the activation's type.
template <class Run>
void choose(Activation kind, const Run& run) {
  switch (kind) {
    case Activation::kSilu: run(Silu()); break;
    case Activation::kGelu: run(Gelu()); break;
    case Activation::kGeluTanh: run(GeluTanh()); break;
    case Activation::kRelu: run(Relu()); break;
  }
}

template <class T>
void activate(const core::Work& work, Activation kind, std::int64_t count, const T* x, T* y) {
  choose(kind, [&](auto act) {
    walk<kWide<T>>(work, "activate", count, aligned(x, y), Values<decltype(act), T>{x, y});
  });
}

template <class T>
void activate_backward(const core::Work& work, Activation kind, std::int64_t count,
                       const ActivateBackward<T>& at) {
  choose(kind, [&](auto act) {
    walk<kWide<T>>(work, "activate_backward", count, aligned(at.x, at.dy, at.dx, at.y),
                   Slopes<decltype(act), T>{at});
  });
}

template <class T>
void glu(const core::Work& work, Activation kind, std::int64_t count, const T* gate, const T* up,
         T* y) {
  choose(kind, [&](auto act) {
    walk<kWide<T>>(work, "glu", count, aligned(gate, up, y),
                   GatedProducts<decltype(act), T>{gate, up, y});
  });
}

template <class T>
void glu_backward(const core::Work& work, Activation kind, std::int64_t count,
                  const SwigluBackward<T>& at) {
  choose(kind, [&](auto act) {
    walk<kWide<T>>(work, "glu_backward", count,
                   aligned(at.gate, at.up, at.dy, at.dgate, at.dup, at.y),
                   ProductSlopes<decltype(act), T>{at});
  });
}

template <class T>
void swiglu(const core::Work& work, std::int64_t count, const T* gate, const T* up, T* y) {
  cuda::glu<T>(work, Activation::kSilu, count, gate, up, y);
}

template <class T>
void swiglu_backward(const core::Work& work, std::int64_t count, const SwigluBackward<T>& at) {
  cuda::glu_backward<T>(work, Activation::kSilu, count, at);
}

template <class T, class Table>
void fill(Table& table) {
  table.activate = activate<T>;
  table.activate_backward = activate_backward<T>;
  table.glu = glu<T>;
  table.glu_backward = glu_backward<T>;
  table.swiglu = swiglu<T>;
  table.swiglu_backward = swiglu_backward<T>;
}

}  // namespace

void fill_activations(DeviceKernels& table) {
  fill<float>(table.fp32);
  fill<core::Bf16>(table.bf16);
  fill<core::F16>(table.fp16);
}

}  // namespace fm::kernels::cuda
