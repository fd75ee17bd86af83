// Public kernels that a device may fuse into one pass over memory: here, and where it does not,
// they are several kernels.
#include "kernels/variants/dispatch.h"

namespace fm::kernels {
namespace {

using dispatch::of_rows;
using dispatch::of_type;
using dispatch::rows;

constexpr core::TraceForm kGluRows = of_rows("glu_rows");
constexpr core::TraceForm kGluRowsBackward = of_rows("glu_rows_backward");
constexpr core::TraceForm kJoinHeads = of_rows("join_heads");
constexpr core::TraceForm kLayernorm = of_rows("layernorm");
constexpr core::TraceForm kRmsnorm = of_rows("rmsnorm");
constexpr core::TraceForm kRoundedCrossEntropy = of_rows("cross_entropy_rounded");
constexpr core::TraceForm kSplitHeads = of_rows("split_heads");

// Runs a kernel of the Work's device, and says whether it has it.
template <class T, class Kernel, class... Arguments>
bool run_fused(const core::Work& work, Kernel DeviceFused<T>::*which, const core::TraceForm& form,
               const core::TraceValues& values, const Arguments&... arguments) {
  if (work.queue == nullptr) return false;
  const Kernel kernel = of_type<T>(dispatch::kernels_of(work).fused).*which;
  if (kernel == nullptr) return false;
  const core::TraceScope scope(work.queue, form, values);
  kernel(work, arguments...);
  return true;
}

template <class T>
core::TraceValues all_heads(core::BatchShape shape, const HeadGroups& groups) {
  return rows<T>(shape.tokens() * groups.heads(), groups.head_dim, 2);
}

// What lies where in the heads of a group: elements.
struct GroupWidths {
  std::int64_t q, kv, all;
  explicit GroupWidths(const HeadGroups& groups)
      : q(groups.queries * groups.head_dim), kv(groups.keys * groups.head_dim), all(q + 2 * kv) {}
};

}  // namespace

template <class T>
void glu_rows(const core::Work& work, Activation kind, const GatedShape& shape, const T* gate,
              const T* up, T* y) {
  const auto [count, width] = shape.rows;
  if (shape.stride == width) return glu(work, kind, count * width, gate, up, y);
  if (run_fused(work, &DeviceFused<T>::glu_rows, kGluRows, rows<T>(count, width, 3), kind, shape,
                gate, up, y)) {
    return;
  }
  for (std::int64_t row = 0; row < count; ++row) {
    const std::int64_t at = row * shape.stride;
    glu(work, kind, width, gate + at, up + at, y + row * width);
  }
}
template void glu_rows(const core::Work&, Activation, const GatedShape&, const float*, const float*,
                       float*);
template void glu_rows(const core::Work&, Activation, const GatedShape&, const core::Bf16*,
                       const core::Bf16*, core::Bf16*);
template void glu_rows(const core::Work&, Activation, const GatedShape&, const core::F16*,
                       const core::F16*, core::F16*);

template <class T>
void glu_rows_backward(const core::Work& work, Activation kind, const GatedShape& shape,
                       const SwigluBackward<T>& at) {
  const auto [count, width] = shape.rows;
  if (shape.stride == width) return glu_backward(work, kind, count * width, at);
  if (run_fused(work, &DeviceFused<T>::glu_rows_backward, kGluRowsBackward,
                rows<T>(count, width, 6), kind, shape, at)) {
    return;
  }
  for (std::int64_t row = 0; row < count; ++row) {
    const std::int64_t begin = row * shape.stride;
    glu_backward<T>(work, kind, width,
                    {at.gate + begin, at.up + begin, at.dy + begin, at.dgate + begin,
                     at.dup + begin, at.y + begin});
  }
}
template void glu_rows_backward(const core::Work&, Activation, const GatedShape&,
                                const SwigluBackward<float>&);
template void glu_rows_backward(const core::Work&, Activation, const GatedShape&,
                                const SwigluBackward<core::Bf16>&);
template void glu_rows_backward(const core::Work&, Activation, const GatedShape&,
                                const SwigluBackward<core::F16>&);

template <class T>
void split_heads(const core::Work& work, const RopeTable& table, core::BatchShape shape,
                 const HeadGroups& groups, const SplitHeads<T>& at) {
  const bool halves = groups.head_dim % 2 == 0;
  if (halves && run_fused(work, &DeviceFused<T>::split_heads, kSplitHeads,
                          all_heads<T>(shape, groups), table, shape, groups, at)) {
    return;
  }
  const GroupWidths width(groups);
  const std::int64_t count = shape.tokens() * groups.groups;
  copy_rows<T>(work, {count, width.q}, {at.all, width.all}, {at.q, width.q});
  copy_rows<T>(work, {count, width.kv}, {at.all + width.q, width.all}, {at.k, width.kv});
  copy_rows<T>(work, {count, width.kv}, {at.all + width.q + width.kv, width.all}, {at.v, width.kv});
  if (table.half_dim == 0) return;
  rope(work, table, shape, groups.groups * groups.queries, at.q);
  rope(work, table, shape, groups.groups * groups.keys, at.k);
}
template void split_heads(const core::Work&, const RopeTable&, core::BatchShape, const HeadGroups&,
                          const SplitHeads<float>&);
template void split_heads(const core::Work&, const RopeTable&, core::BatchShape, const HeadGroups&,
                          const SplitHeads<core::Bf16>&);
template void split_heads(const core::Work&, const RopeTable&, core::BatchShape, const HeadGroups&,
                          const SplitHeads<core::F16>&);

template <class T>
void join_heads(const core::Work& work, const RopeTable& table, core::BatchShape shape,
                const HeadGroups& groups, const SplitHeads<T>& at) {
  const bool halves = groups.head_dim % 2 == 0;
  if (halves && run_fused(work, &DeviceFused<T>::join_heads, kJoinHeads,
                          all_heads<T>(shape, groups), table, shape, groups, at)) {
    return;
  }
  if (table.half_dim > 0) {
    rope_inverse(work, table, shape, groups.groups * groups.queries, at.q);
    rope_inverse(work, table, shape, groups.groups * groups.keys, at.k);
  }
  const GroupWidths width(groups);
  const std::int64_t count = shape.tokens() * groups.groups;
  copy_rows<T>(work, {count, width.q}, {at.q, width.q}, {at.all, width.all});
  copy_rows<T>(work, {count, width.kv}, {at.k, width.kv}, {at.all + width.q, width.all});
  copy_rows<T>(work, {count, width.kv}, {at.v, width.kv}, {at.all + width.q + width.kv, width.all});
}
template void join_heads(const core::Work&, const RopeTable&, core::BatchShape, const HeadGroups&,
                         const SplitHeads<float>&);
template void join_heads(const core::Work&, const RopeTable&, core::BatchShape, const HeadGroups&,
                         const SplitHeads<core::Bf16>&);
template void join_heads(const core::Work&, const RopeTable&, core::BatchShape, const HeadGroups&,
                         const SplitHeads<core::F16>&);

template <class T>
void rmsnorm(const core::Work& work, RowShape shape, const T* x, NormWeight<T> weight, double eps,
             float* rstd, T* y) {
  if (run_fused(work, &DeviceFused<T>::rmsnorm, kRmsnorm, rows(shape, 2 * sizeof(T)), shape, x,
                weight, eps, rstd, y)) {
    return;
  }
  rmsnorm_rstd(work, shape, x, eps, rstd);
  rmsnorm_apply(work, shape, x, weight, rstd, y);
}
template void rmsnorm(const core::Work&, RowShape, const float*, NormWeight<float>, double, float*,
                      float*);
template void rmsnorm(const core::Work&, RowShape, const core::Bf16*, NormWeight<core::Bf16>,
                      double, float*, core::Bf16*);
template void rmsnorm(const core::Work&, RowShape, const core::F16*, NormWeight<core::F16>, double,
                      float*, core::F16*);

template <class T>
void layernorm(const core::Work& work, RowShape shape, double eps, const LayernormForward<T>& at) {
  if (run_fused(work, &DeviceFused<T>::layernorm, kLayernorm, rows(shape, 2 * sizeof(T)), shape,
                eps, at)) {
    return;
  }
  layernorm_statistics(work, shape, at.x, eps, at.mean, at.rstd);
  layernorm_apply<T>(work, shape, {at.x, at.weight, at.bias, at.mean, at.rstd, at.y});
}
template void layernorm(const core::Work&, RowShape, double, const LayernormForward<float>&);
template void layernorm(const core::Work&, RowShape, double, const LayernormForward<core::Bf16>&);
template void layernorm(const core::Work&, RowShape, double, const LayernormForward<core::F16>&);

template <class T>
void rounded_cross_entropy(const core::Work& work, LogitRows shape, const RoundedGradients<T>& at,
                           const LogitGradient& gradient, double* sum) {
  if (run_fused(work, &DeviceFused<T>::rounded_cross_entropy, kRoundedCrossEntropy,
                rows({shape.rows, shape.width}, sizeof(float) + sizeof(T)), shape, at, gradient,
                sum)) {
    return;
  }
  if (at.parts.numbers == nullptr) {
    cross_entropy(work, shape, at.logits, at.labels, gradient, sum);
  } else {
    cross_entropy_of_parts(work, shape, at.logits, at.labels, at.parts, gradient, sum);
  }
  const LogitRows all = shape.joined();
  cast_rows(work, {all.rows, all.width}, at.logits, all.stride, at.gradients, all.stride);
}
template void rounded_cross_entropy(const core::Work&, LogitRows,
                                    const RoundedGradients<core::Bf16>&, const LogitGradient&,
                                    double*);
template void rounded_cross_entropy(const core::Work&, LogitRows,
                                    const RoundedGradients<core::F16>&, const LogitGradient&,
                                    double*);

}  // namespace fm::kernels
