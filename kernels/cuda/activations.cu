// Activations of an MLP, plain and gated (kernels/pointwise/activations.h, swiglu.h), in one pass
// over their arrays.
#include "kernels/cuda/rows.h"
#include "kernels/cuda/table.h"
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

// act(gate) * up
template <class Act, class T, int kWidth>
__device__ Pack<T, kWidth> gated(Pack<T, kWidth> gate, const Pack<T, kWidth>& up) {
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const float value = Act::at(widened(gate.at[i])).value;
    gate.at[i] = narrowed<T>(value * widened(up.at[i]));
  }
  return gate;
}

template <class Act, class T>
struct GatedProducts {
  const T* gate;
  const T* up;
  T* y;
  template <int kWidth>
  __device__ void run(std::int64_t at) const {
    store(y + at, gated<Act>(load<kWidth>(gate + at), load<kWidth>(up + at)));
  }
};

// Of SwigluBackward: before differentiate() gate, up and dy, then dgate, the product again, and
// dup.
template <class T, int kWidth>
struct GatedSlopes {
  Pack<T, kWidth> gate, up, dy;

  static __device__ GatedSlopes loaded(const SwigluBackward<T>& of, std::int64_t at) {
    return {load<kWidth>(of.gate + at), load<kWidth>(of.up + at), load<kWidth>(of.dy + at)};
  }
  template <class Act>
  __device__ void differentiate() {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const ActivationPoint point = Act::at(widened(gate.at[i]));
      const float d = widened(dy.at[i]);
      const float u = widened(up.at[i]);
      gate.at[i] = narrowed<T>(u * point.slope * d);
      up.at[i] = narrowed<T>(point.value * u);
      dy.at[i] = narrowed<T>(d * point.value);
    }
  }
  __device__ void store_to(const SwigluBackward<T>& of, std::int64_t at) const {
    store(of.dgate + at, gate);
    store(of.dup + at, dy);
    store(of.y + at, up);
  }
};

template <class Act, class T>
struct ProductSlopes {
  SwigluBackward<T> of;
  template <int kWidth>
  __device__ void run(std::int64_t at) const {
    auto packs = GatedSlopes<T, kWidth>::loaded(of, at);
    packs.template differentiate<Act>();
    packs.store_to(of, at);
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

// What walk_rows keeps of the columns of a thread: nothing.
struct NoColumns {};
// And of a row.
template <class T, int kWidth>
struct GatedPair {
  Pack<T, kWidth> gate, up;
};
template <class T, int kWidth>
struct PlacedSlopes {
  GatedSlopes<T, kWidth> packs;
  std::int64_t from;
};

// Rows of gate and up with `gap` elements between them; those of y have none. `at` counts no gaps.
template <class Act, class T>
struct GatedRows {
  const T* gate;
  const T* up;
  T* y;
  std::int64_t gap;

  template <int kWidth>
  using OfRow = GatedPair<T, kWidth>;
  template <int kWidth>
  __device__ NoColumns columns(std::int64_t /*column*/) const {
    return {};
  }
  template <int kWidth>
  __device__ OfRow<kWidth> row(std::int64_t row, std::int64_t at) const {
    const std::int64_t from = at + row * gap;
    return {load<kWidth>(gate + from), load<kWidth>(up + from)};
  }
  template <int kWidth>
  __device__ void write(NoColumns, const OfRow<kWidth>& row, std::int64_t at) const {
    store(y + at, gated<Act>(row.gate, row.up));
  }
};

template <class Act, class T>
struct SlopeRows {
  SwigluBackward<T> of;
  std::int64_t gap;

  template <int kWidth>
  using OfRow = PlacedSlopes<T, kWidth>;
  template <int kWidth>
  __device__ NoColumns columns(std::int64_t /*column*/) const {
    return {};
  }
  template <int kWidth>
  __device__ OfRow<kWidth> row(std::int64_t row, std::int64_t at) const {
    const std::int64_t from = at + row * gap;
    return {GatedSlopes<T, kWidth>::loaded(of, from), from};
  }
  template <int kWidth>
  __device__ void write(NoColumns, OfRow<kWidth> row, std::int64_t /*at*/) const {
    row.packs.template differentiate<Act>();
    row.packs.store_to(of, row.from);
  }
};

// Whether rows of an array may be read 16 bytes at a time, if the array may.
template <class T>
bool rows_aligned(const GatedShape& shape) {
  return shape.stride % kWide<T> == 0;
}

template <class T>
void glu_rows(const core::Work& work, Activation kind, const GatedShape& shape, const T* gate,
              const T* up, T* y) {
  choose(kind, [&](auto act) {
    walk_rows<T>(work, "glu_rows", shape.rows, aligned(gate, up, y) && rows_aligned<T>(shape),
                 GatedRows<decltype(act), T>{gate, up, y, shape.stride - shape.rows.width});
  });
}

template <class T>
void glu_rows_backward(const core::Work& work, Activation kind, const GatedShape& shape,
                       const SwigluBackward<T>& at) {
  const bool wide =
      aligned(at.gate, at.up, at.dy, at.dgate, at.dup, at.y) && rows_aligned<T>(shape);
  choose(kind, [&](auto act) {
    walk_rows<T>(work, "glu_rows_backward", shape.rows, wide,
                 SlopeRows<decltype(act), T>{at, shape.stride - shape.rows.width});
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

template <class T, class Table, class Fused>
void fill(Table& table, Fused& fused) {
  table.activate = activate<T>;
  table.activate_backward = activate_backward<T>;
  table.glu = glu<T>;
  table.glu_backward = glu_backward<T>;
  table.swiglu = swiglu<T>;
  table.swiglu_backward = swiglu_backward<T>;
  fused.glu_rows = glu_rows<T>;
  fused.glu_rows_backward = glu_rows_backward<T>;
}

}  // namespace

void fill_activations(DeviceKernels& table) {
  fill<float>(table.fp32, table.fused.fp32);
  fill<core::Bf16>(table.bf16, table.fused.bf16);
  fill<core::F16>(table.fp16, table.fused.fp16);
}

}  // namespace fm::kernels::cuda
