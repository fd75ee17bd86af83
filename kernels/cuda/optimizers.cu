// Update rules of optimizers and the parts of Muon that are no products, with the bits of this CPU
// (kernels/pointwise/optimizers.h, muon.h): the same operations in the same order, each rounded,
// which needs --fmad=false. The host computes the coefficients in fp64.
#include <cmath>

#include "core/check.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/walk.h"

namespace fm::kernels::cuda {
namespace {

constexpr int kWide = 4;

struct SgdPlain {
  SgdSlice slice;
  float lr;
  float decay;
  float grad_scale;
  template <int kWidth>
  __device__ void run(std::int64_t at) const {
    const auto grad = load<kWidth>(slice.grad + at);
    auto param = load<kWidth>(slice.param + at);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float p = param.at[i];
      param.at[i] = p - lr * (grad.at[i] * grad_scale + decay * p);
    }
    store(slice.param + at, param);
  }
};

template <Lookahead kLookahead>
struct SgdMomentum {
  SgdSlice slice;
  float lr;
  float decay;
  float grad_scale;
  float momentum;
  float keep;
  float take;
  bool first;
  template <int kWidth>
  __device__ void run(std::int64_t at) const {
    const auto grad = load<kWidth>(slice.grad + at);
    auto param = load<kWidth>(slice.param + at);
    Pack<float, kWidth> buffers{};
    if (!first) buffers = load<kWidth>(slice.momentum + at);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float p = param.at[i];
      const float d = grad.at[i] * grad_scale + decay * p;
      const float buffer = keep * buffers.at[i] + take * d;
      buffers.at[i] = buffer;
      param.at[i] = p - lr * (kLookahead == Lookahead::kNesterov ? d + momentum * buffer : buffer);
    }
    store(slice.momentum + at, buffers);
    store(slice.param + at, param);
  }
};

template <Lookahead kLookahead>
void sgd_momentum(const core::Work& work, const SgdStep& step, const SgdSlice& slice) {
  const auto momentum = static_cast<float>(step.momentum);
  const SgdMomentum<kLookahead> body{slice,
                                     static_cast<float>(step.lr),
                                     static_cast<float>(step.weight_decay),
                                     step.grad_scale,
                                     momentum,
                                     step.first ? 0.0F : momentum,
                                     step.first ? 1.0F : static_cast<float>(1.0 - step.dampening),
                                     step.first};
  const bool wide = aligned(slice.param, slice.grad, slice.momentum);
  walk<kWide>(work, "sgd", slice.count, wide, body);
}

void sgd(const core::Work& work, const SgdStep& step, const SgdSlice& slice) {
  if (step.momentum == 0.0) {
    const SgdPlain body{slice, static_cast<float>(step.lr), static_cast<float>(step.weight_decay),
                        step.grad_scale};
    return walk<kWide>(work, "sgd", slice.count, aligned(slice.param, slice.grad), body);
  }
  switch (step.lookahead) {
    case Lookahead::kPlain: return sgd_momentum<Lookahead::kPlain>(work, step, slice);
    case Lookahead::kNesterov: return sgd_momentum<Lookahead::kNesterov>(work, step, slice);
  }
}

struct Adagrad {
  AdagradSlice slice;
  float lr;
  float eps;
  float decay;
  float grad_scale;
  template <int kWidth>
  __device__ void run(std::int64_t at) const {
    const auto grad = load<kWidth>(slice.grad + at);
    auto param = load<kWidth>(slice.param + at);
    auto sums = load<kWidth>(slice.sum + at);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float p = param.at[i];
      const float g = grad.at[i] * grad_scale + decay * p;
      const float sum = sums.at[i] + g * g;
      sums.at[i] = sum;
      param.at[i] = p - lr * g / (sqrtf(sum) + eps);
    }
    store(slice.sum + at, sums);
    store(slice.param + at, param);
  }
};

void adagrad(const core::Work& work, const AdagradStep& step, const AdagradSlice& slice) {
  const Adagrad body{slice, static_cast<float>(step.lr), static_cast<float>(step.eps),
                     static_cast<float>(step.weight_decay), step.grad_scale};
  const bool wide = aligned(slice.param, slice.grad, slice.sum);
  walk<kWide>(work, "adagrad", slice.count, wide, body);
}

template <WeightDecay kMode>
struct Adamw {
  AdamwSlice slice;
  float beta1;
  float beta2;
  float rest1;
  float rest2;
  float eps;
  float decay;  // of the gradient (kL2), or of the parameter by the learning rate (kDecoupled)
  float rate;
  float root_scale;
  float grad_scale;
  template <int kWidth>
  __device__ void run(std::int64_t at) const {
    const auto grad = load<kWidth>(slice.grad + at);
    auto param = load<kWidth>(slice.param + at);
    auto exp_avg = load<kWidth>(slice.exp_avg + at);
    auto exp_avg_sq = load<kWidth>(slice.exp_avg_sq + at);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float p = param.at[i];
      float g = grad.at[i] * grad_scale;
      if constexpr (kMode == WeightDecay::kL2) g += decay * p;
      const float m = beta1 * exp_avg.at[i] + rest1 * g;
      const float v = beta2 * exp_avg_sq.at[i] + rest2 * g * g;
      float change = rate * (m / (sqrtf(v) * root_scale + eps));
      if constexpr (kMode == WeightDecay::kDecoupled) change += decay * p;
      exp_avg.at[i] = m;
      exp_avg_sq.at[i] = v;
      param.at[i] = p - change;
    }
    store(slice.exp_avg + at, exp_avg);
    store(slice.exp_avg_sq + at, exp_avg_sq);
    store(slice.param + at, param);
  }
};

template <WeightDecay kMode>
void adamw_by(const core::Work& work, const AdamwStep& step, const AdamwSlice& slice) {
  constexpr bool kDecoupled = kMode == WeightDecay::kDecoupled;
  const Adamw<kMode> body{
      slice,
      static_cast<float>(step.beta1),
      static_cast<float>(step.beta2),
      static_cast<float>(1.0 - step.beta1),
      static_cast<float>(1.0 - step.beta2),
      static_cast<float>(step.eps),
      static_cast<float>(kDecoupled ? step.lr * step.weight_decay : step.weight_decay),
      static_cast<float>(step.lr / step.correction1),
      static_cast<float>(1.0 / std::sqrt(step.correction2)),
      step.grad_scale};
  const bool wide = aligned(slice.param, slice.grad, slice.exp_avg, slice.exp_avg_sq);
  walk<kWide>(work, "adamw", slice.count, wide, body);
}

void adamw(const core::Work& work, const AdamwStep& step, const AdamwSlice& slice) {
  switch (step.mode) {
    case WeightDecay::kDecoupled: return adamw_by<WeightDecay::kDecoupled>(work, step, slice);
    case WeightDecay::kL2: return adamw_by<WeightDecay::kL2>(work, step, slice);
  }
}

struct LambDirection {
  LambSlice slice;
  float beta1;
  float beta2;
  float take1;
  float take2;
  float decay;
  float inside;   // the root
  float outside;  // the root
  float grad_scale;
  template <int kWidth>
  __device__ void run(std::int64_t at) const {
    auto grad = load<kWidth>(slice.grad + at);
    const auto param = load<kWidth>(slice.param + at);
    auto exp_avg = load<kWidth>(slice.exp_avg + at);
    auto exp_avg_sq = load<kWidth>(slice.exp_avg_sq + at);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float g = grad.at[i] * grad_scale;
      const float m = beta1 * exp_avg.at[i] + take1 * g;
      const float v = beta2 * exp_avg_sq.at[i] + take2 * (g * g);
      exp_avg.at[i] = m;
      exp_avg_sq.at[i] = v;
      grad.at[i] = m / (sqrtf(v + inside) + outside) + decay * param.at[i];
    }
    store(slice.exp_avg + at, exp_avg);
    store(slice.exp_avg_sq + at, exp_avg_sq);
    store(slice.grad + at, grad);
  }
};

void lamb_direction(const core::Work& work, const LambStep& step, const LambSlice& slice) {
  const auto eps = static_cast<float>(step.eps);
  const LambDirection body{slice,
                           static_cast<float>(step.beta1),
                           static_cast<float>(step.beta2),
                           static_cast<float>(1.0 - step.beta1),
                           static_cast<float>(1.0 - step.beta2),
                           static_cast<float>(step.weight_decay),
                           step.eps_inside_sqrt ? eps : 0.0F,
                           step.eps_inside_sqrt ? 0.0F : eps,
                           step.grad_scale};
  const bool wide = aligned(slice.param, slice.grad, slice.exp_avg, slice.exp_avg_sq);
  walk<kWide>(work, "lamb_direction", slice.count, wide, body);
}

struct LambMove {
  float rate;
  const float* direction;
  float* param;
  template <int kWidth>
  __device__ void run(std::int64_t at) const {
    const auto u = load<kWidth>(direction + at);
    auto p = load<kWidth>(param + at);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) p.at[i] -= rate * u.at[i];
    store(param + at, p);
  }
};

void lamb_move(const core::Work& work, float rate, std::int64_t count, const float* direction,
               float* param) {
  walk<kWide>(work, "lamb_move", count, aligned(direction, param),
              LambMove{rate, direction, param});
}

struct Lion {
  LionSlice slice;
  float lr;
  float keep;
  float beta1;
  float beta2;
  float take1;
  float take2;
  float grad_scale;
  template <int kWidth>
  __device__ void run(std::int64_t at) const {
    const auto grad = load<kWidth>(slice.grad + at);
    auto param = load<kWidth>(slice.param + at);
    auto exp_avg = load<kWidth>(slice.exp_avg + at);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float g = grad.at[i] * grad_scale;
      const float m = exp_avg.at[i];
      const float c = beta1 * m + take1 * g;
      const float up = c > 0.0F ? lr : 0.0F;
      const float down = c < 0.0F ? lr : 0.0F;
      param.at[i] = param.at[i] * keep - (up - down);
      exp_avg.at[i] = beta2 * m + take2 * g;
    }
    store(slice.param + at, param);
    store(slice.exp_avg + at, exp_avg);
  }
};

void lion(const core::Work& work, const LionStep& step, const LionSlice& slice) {
  const Lion body{slice,
                  static_cast<float>(step.lr),
                  static_cast<float>(1.0 - step.lr * step.weight_decay),
                  static_cast<float>(step.beta1),
                  static_cast<float>(step.beta2),
                  static_cast<float>(1.0 - step.beta1),
                  static_cast<float>(1.0 - step.beta2),
                  step.grad_scale};
  const bool wide = aligned(slice.param, slice.grad, slice.exp_avg);
  walk<kWide>(work, "lion", slice.count, wide, body);
}

struct MuonBegin {
  MuonStep step;
  float* grads;
  float* momentums;
  template <int kWidth>
  __device__ void run(std::int64_t at) const {
    auto grad = load<kWidth>(grads + at);
    auto momentum = load<kWidth>(momentums + at);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float g = grad.at[i] * step.grad_scale;
      momentum.at[i] = step.keep * momentum.at[i] + step.take * g;
      grad.at[i] = step.take * g + step.keep * momentum.at[i];
    }
    store(momentums + at, momentum);
    store(grads + at, grad);
  }
};

void muon_begin(const core::Work& work, const MuonStep& step, std::int64_t count, float* grad,
                float* momentum) {
  walk<kWide>(work, "muon_begin", count, aligned(grad, momentum), MuonBegin{step, grad, momentum});
}

struct MuonMove {
  float keep;
  float rate;
  const float* direction;
  float* param;
  template <int kWidth>
  __device__ void run(std::int64_t at) const {
    const auto d = load<kWidth>(direction + at);
    auto p = load<kWidth>(param + at);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) p.at[i] = keep * p.at[i] - rate * d.at[i];
    store(param + at, p);
  }
};

void muon_move(const core::Work& work, float keep, float rate, std::int64_t count,
               const float* direction, float* param) {
  walk<kWide>(work, "muon_move", count, aligned(direction, param),
              MuonMove{keep, rate, direction, param});
}

// sums[g] = the tree of core/tree.h over leaves 1024 g .. 1024 g + 1023, one per thread. What lies
// behind the last leaf counts as 0: of squares, that leaves every sum as it is.
constexpr int kGroup = 1024;
constexpr int kWarp = 32;
struct TreeMemory {
  double of_warp[kGroup / kWarp];
};
__device__ double tree_of_warp(double sum) {
  for (int by = 1; by < kWarp; by *= 2) sum += __shfl_xor_sync(0xffffffffU, sum, by);
  return sum;
}
__global__ void __launch_bounds__(kGroup)
    tree_groups(std::int64_t count, const double* leaves, double* sums) {
  auto& memory = shared_memory<TreeMemory>();
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t leaf = std::int64_t{blockIdx.x} * kGroup + thread;
  const double sum = tree_of_warp(leaf < count ? leaves[leaf] : 0.0);
  if (thread % kWarp == 0) memory.of_warp[thread / kWarp] = sum;
  __syncthreads();
  if (thread >= kWarp) return;
  const double total = tree_of_warp(memory.of_warp[thread]);
  if (thread == 0) sums[blockIdx.x] = total;
}

struct NormFactor {
  const double* square;
  float* factor;
  template <int kWidth>
  __device__ void run(std::int64_t /*at*/) const {
    const double norm = sqrt(*square);
    *factor = static_cast<float>(1.0 / (norm + 1e-7));
  }
};

struct Multiply {
  const float* factor;
  float* values;
  template <int kWidth>
  __device__ void run(std::int64_t at) const {
    const float by = *factor;
    auto pack = load<kWidth>(values + at);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) pack.at[i] *= by;
    store(values + at, pack);
  }
};

void divide_by_norm(const core::Work& work, std::span<float> values, std::span<double> blocks) {
  if (values.empty()) return;
  own_kernels().squared_norm(work, values, blocks);
  const Workspace space = workspace(work);
  const double* leaves = blocks.data();
  auto* next = static_cast<double*>(space.data);
  std::int64_t count = std::ssize(blocks);
  // Sums of sums are fewer than the first sums; the last place is the factor's.
  const core::Elements most(2 * core::ceil_div(count, kGroup) + 2);
  FM_CHECK(space.bytes >= core::bytes_of(most, core::DType::kF64),
           "the work space is too small for squares of ", values.size(), " elements");
  while (count > 1) {
    const std::int64_t groups = core::ceil_div(count, kGroup);
    launch(work, "divide_by_norm",
           {{static_cast<unsigned>(groups), 1, 1}, {kGroup, 1, 1}, sizeof(TreeMemory)}, tree_groups,
           count, leaves, next);
    leaves = next;
    next += groups;
    count = groups;
  }
  auto* const factor = reinterpret_cast<float*>(next);
  walk<1>(work, "divide_by_norm", 1, false, NormFactor{leaves, factor});
  walk<kWide>(work, "divide_by_norm", std::ssize(values), aligned(values.data()),
              Multiply{factor, values.data()});
}

struct QuinticFactor {
  Quintic by;
  const float* squared;
  float* factor;
  template <int kWidth>
  __device__ void run(std::int64_t at) const {
    const auto s = load<kWidth>(squared + at);
    auto f = load<kWidth>(factor + at);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) f.at[i] = by.b * s.at[i] + by.c * f.at[i];
    store(factor + at, f);
  }
};

struct AddToDiagonal {
  float number;
  std::int64_t side;
  float* matrix;
  template <int kWidth>
  __device__ void run(std::int64_t at) const {
    matrix[at * (side + 1)] += number;
  }
};

void quintic_factor(const core::Work& work, const Quintic& by, std::int64_t side,
                    const float* squared, float* factor) {
  walk<kWide>(work, "quintic_factor", side * side, aligned(squared, factor),
              QuinticFactor{by, squared, factor});
  walk<1>(work, "quintic_factor", side, false, AddToDiagonal{by.a, side, factor});
}

}  // namespace

void fill_optimizers(DeviceKernels& table) {
  table.adagrad = adagrad;
  table.adamw = adamw;
  table.divide_by_norm = divide_by_norm;
  table.lamb_direction = lamb_direction;
  table.lamb_move = lamb_move;
  table.lion = lion;
  table.muon_begin = muon_begin;
  table.muon_move = muon_move;
  table.quintic_factor = quintic_factor;
  table.sgd = sgd;
}

}  // namespace fm::kernels::cuda
