// The public kernels over a model's elements, as variants/dispatch.cc has the others.
#include "kernels/variants/dispatch.h"

namespace fm::kernels {
namespace {

using core::TraceForm;
using core::TraceScope;
using dispatch::DeviceElements;
using dispatch::elements;
using dispatch::launch;
using dispatch::of_elements;
using dispatch::of_rows;
using dispatch::of_type;
using dispatch::rows;

constexpr TraceForm kActivate = of_elements("activate");
constexpr TraceForm kActivateBackward = of_elements("activate_backward");
constexpr TraceForm kAddBias = of_rows("add_bias");
constexpr TraceForm kAddResidual = of_elements("add_residual");
constexpr TraceForm kColumnSums = of_rows("column_sums");
constexpr TraceForm kEmbedding = of_rows("embedding");
constexpr TraceForm kEmbeddingBackward = of_rows("embedding_backward");
constexpr TraceForm kEmbeddingPart = of_rows("embedding_part");
constexpr TraceForm kSplitInput = of_rows("split_input");
constexpr TraceForm kSplitProducts = of_rows("split_products");
constexpr TraceForm kGlu = of_elements("glu");
constexpr TraceForm kGluBackward = of_elements("glu_backward");
constexpr TraceForm kLayernormApply = of_rows("layernorm_apply");
constexpr TraceForm kLayernormBackward = of_rows("layernorm_backward");
constexpr TraceForm kLayernormStatistics = of_rows("layernorm_statistics");
constexpr TraceForm kRmsnormApply = of_rows("rmsnorm_apply");
constexpr TraceForm kRmsnormBackward = of_rows("rmsnorm_backward");
constexpr TraceForm kRmsnormRstd = of_rows("rmsnorm_rstd");
constexpr TraceForm kRope = of_rows("rope");
constexpr TraceForm kRopeInverse = of_rows("rope_inverse");
constexpr TraceForm kDropout = of_elements("dropout");
constexpr TraceForm kScale = of_elements("scale");
constexpr TraceForm kSwiglu = of_elements("swiglu");
constexpr TraceForm kSwigluBackward = of_elements("swiglu_backward");

template <class T>
core::TraceValues all_heads(const RopeTable& table, core::BatchShape shape, std::int64_t count) {
  return rows<T>(shape.tokens() * count, table.head_dim, 2);
}

}  // namespace

template <class T>
void activate(const core::Work& work, Activation kind, std::int64_t count, const T* x, T* y) {
  const TraceScope scope(work.queue, kActivate, elements<T>(count, 2));
  launch(work, &DeviceElements<T>::activate, &CpuElements<T>::activate, kind, count, x, y);
}
template void activate(const core::Work&, Activation, std::int64_t, const float*, float*);
template void activate(const core::Work&, Activation, std::int64_t, const core::Bf16*, core::Bf16*);
template void activate(const core::Work&, Activation, std::int64_t, const core::F16*, core::F16*);

template <class T>
void activate_backward(const core::Work& work, Activation kind, std::int64_t count,
                       const ActivateBackward<T>& at) {
  const TraceScope scope(work.queue, kActivateBackward, elements<T>(count, 4));
  launch(work, &DeviceElements<T>::activate_backward, &CpuElements<T>::activate_backward, kind,
         count, at);
}
template void activate_backward(const core::Work&, Activation, std::int64_t,
                                const ActivateBackward<float>&);
template void activate_backward(const core::Work&, Activation, std::int64_t,
                                const ActivateBackward<core::Bf16>&);
template void activate_backward(const core::Work&, Activation, std::int64_t,
                                const ActivateBackward<core::F16>&);

template <class T>
void add_bias(const core::Work& work, RowShape shape, const T* bias, T* y) {
  const TraceScope scope(work.queue, kAddBias, rows(shape, 2 * sizeof(T)));
  launch(work, &DeviceElements<T>::add_bias, &CpuElements<T>::add_bias, shape, bias, y);
}
template void add_bias(const core::Work&, RowShape, const float*, float*);
template void add_bias(const core::Work&, RowShape, const core::Bf16*, core::Bf16*);
template void add_bias(const core::Work&, RowShape, const core::F16*, core::F16*);

template <class T>
void add_residual(const core::Work& work, std::int64_t count, const float* x, const T* residual,
                  T* y) {
  const TraceScope scope(work.queue, kAddResidual, elements<T>(count, 3));
  launch(work, &DeviceElements<T>::add_residual, &CpuElements<T>::add_residual, count, x, residual,
         y);
}
template void add_residual(const core::Work&, std::int64_t, const float*, const float*, float*);
template void add_residual(const core::Work&, std::int64_t, const float*, const core::Bf16*,
                           core::Bf16*);
template void add_residual(const core::Work&, std::int64_t, const float*, const core::F16*,
                           core::F16*);

// An event for all groups is kernels/attention/attention_cached.cc's.
template <class T>
void attend_cached(const CachedKeys& shape, const CachedRow<T>& at, float* scratch) {
  of_type<T>(chosen_variant().parts).attend_cached(shape, at, scratch);
}
template void attend_cached(const CachedKeys&, const CachedRow<float>&, float*);
template void attend_cached(const CachedKeys&, const CachedRow<core::Bf16>&, float*);
template void attend_cached(const CachedKeys&, const CachedRow<core::F16>&, float*);

template <class T>
void column_sums(const core::Work& work, RowShape shape, const T* x, float* sums) {
  const TraceScope scope(work.queue, kColumnSums, rows(shape, sizeof(T)));
  launch(work, &DeviceElements<T>::column_sums, &CpuElements<T>::column_sums, shape, x, sums);
}
template void column_sums(const core::Work&, RowShape, const float*, float*);
template void column_sums(const core::Work&, RowShape, const core::Bf16*, float*);
template void column_sums(const core::Work&, RowShape, const core::F16*, float*);

template <class T>
void embedding(const core::Work& work, std::span<const std::int32_t> tokens, const T* table,
               std::int64_t width, T* out) {
  const TraceScope scope(work.queue, kEmbedding, rows<T>(std::ssize(tokens), width, 2));
  launch(work, &DeviceElements<T>::embedding, &CpuElements<T>::embedding, tokens, table, width,
         out);
}
template void embedding(const core::Work&, std::span<const std::int32_t>, const float*,
                        std::int64_t, float*);
template void embedding(const core::Work&, std::span<const std::int32_t>, const core::Bf16*,
                        std::int64_t, core::Bf16*);
template void embedding(const core::Work&, std::span<const std::int32_t>, const core::F16*,
                        std::int64_t, core::F16*);

template <class T>
void embedding_backward(const core::Work& work, std::span<const std::int32_t> tokens,
                        const TableRows& rows, const T* dout, std::int64_t width, float* dtable) {
  const RowShape shape{std::ssize(tokens), width};
  const TraceScope scope(work.queue, kEmbeddingBackward,
                         dispatch::rows(shape, sizeof(T) + 2 * sizeof(float)));
  launch(work, &DeviceElements<T>::embedding_backward, &CpuElements<T>::embedding_backward, tokens,
         rows, dout, width, dtable);
}
template void embedding_backward(const core::Work&, std::span<const std::int32_t>, const TableRows&,
                                 const float*, std::int64_t, float*);
template void embedding_backward(const core::Work&, std::span<const std::int32_t>, const TableRows&,
                                 const core::Bf16*, std::int64_t, float*);
template void embedding_backward(const core::Work&, std::span<const std::int32_t>, const TableRows&,
                                 const core::F16*, std::int64_t, float*);

template <class T>
void embedding_part(const core::Work& work, std::span<const std::int32_t> tokens,
                    const TableRows& rows, const T* table, std::int64_t width, float* out) {
  const RowShape shape{std::ssize(tokens), width};
  const TraceScope scope(work.queue, kEmbeddingPart,
                         dispatch::rows(shape, sizeof(T) + sizeof(float)));
  launch(work, &DeviceElements<T>::embedding_part, &CpuElements<T>::embedding_part, tokens, rows,
         table, width, out);
}
template void embedding_part(const core::Work&, std::span<const std::int32_t>, const TableRows&,
                             const float*, std::int64_t, float*);
template void embedding_part(const core::Work&, std::span<const std::int32_t>, const TableRows&,
                             const core::Bf16*, std::int64_t, float*);
template void embedding_part(const core::Work&, std::span<const std::int32_t>, const TableRows&,
                             const core::F16*, std::int64_t, float*);

template <class T>
void split_products(const core::Work& work, const SplitShape& shape, const SplitNormBackward<T>& at,
                    double* products) {
  const TraceScope scope(work.queue, kSplitProducts, rows<T>(shape.rows, shape.width, 3));
  launch(work, &DeviceElements<T>::split_products, &CpuElements<T>::split_products, shape, at,
         products);
}
template void split_products(const core::Work&, const SplitShape&, const SplitNormBackward<float>&,
                             double*);
template void split_products(const core::Work&, const SplitShape&,
                             const SplitNormBackward<core::Bf16>&, double*);
template void split_products(const core::Work&, const SplitShape&,
                             const SplitNormBackward<core::F16>&, double*);

template <class T>
void split_input(const core::Work& work, const SplitShape& shape, const SplitNormBackward<T>& at,
                 const double* products) {
  const TraceScope scope(work.queue, kSplitInput, rows<T>(shape.rows, shape.width, 4));
  launch(work, &DeviceElements<T>::split_input, &CpuElements<T>::split_input, shape, at, products);
}
template void split_input(const core::Work&, const SplitShape&, const SplitNormBackward<float>&,
                          const double*);
template void split_input(const core::Work&, const SplitShape&,
                          const SplitNormBackward<core::Bf16>&, const double*);
template void split_input(const core::Work&, const SplitShape&, const SplitNormBackward<core::F16>&,
                          const double*);

// An event for all tiles is kernels/gemm/few_rows.cc's.
template <class T>
void few_rows_tile(const FewRowsTile<T>& at) {
  of_type<T>(chosen_variant().parts).few_rows_tile(at);
}
template void few_rows_tile(const FewRowsTile<float>&);
template void few_rows_tile(const FewRowsTile<core::Bf16>&);
template void few_rows_tile(const FewRowsTile<core::F16>&);

template <class T>
void glu(const core::Work& work, Activation kind, std::int64_t count, const T* gate, const T* up,
         T* y) {
  if (kind == Activation::kSilu) return swiglu(work, count, gate, up, y);
  const TraceScope scope(work.queue, kGlu, elements<T>(count, 3));
  launch(work, &DeviceElements<T>::glu, &CpuElements<T>::glu, kind, count, gate, up, y);
}
template void glu(const core::Work&, Activation, std::int64_t, const float*, const float*, float*);
template void glu(const core::Work&, Activation, std::int64_t, const core::Bf16*, const core::Bf16*,
                  core::Bf16*);
template void glu(const core::Work&, Activation, std::int64_t, const core::F16*, const core::F16*,
                  core::F16*);

template <class T>
void glu_backward(const core::Work& work, Activation kind, std::int64_t count,
                  const SwigluBackward<T>& at) {
  if (kind == Activation::kSilu) return swiglu_backward(work, count, at);
  const TraceScope scope(work.queue, kGluBackward, elements<T>(count, 5));
  launch(work, &DeviceElements<T>::glu_backward, &CpuElements<T>::glu_backward, kind, count, at);
}
template void glu_backward(const core::Work&, Activation, std::int64_t,
                           const SwigluBackward<float>&);
template void glu_backward(const core::Work&, Activation, std::int64_t,
                           const SwigluBackward<core::Bf16>&);
template void glu_backward(const core::Work&, Activation, std::int64_t,
                           const SwigluBackward<core::F16>&);

template <class T>
void layernorm_statistics(const core::Work& work, RowShape shape, const T* x, double eps,
                          float* mean, float* rstd) {
  const TraceScope scope(work.queue, kLayernormStatistics, rows(shape, sizeof(T)));
  launch(work, &DeviceElements<T>::layernorm_statistics, &CpuElements<T>::layernorm_statistics,
         shape, x, eps, mean, rstd);
}
template void layernorm_statistics(const core::Work&, RowShape, const float*, double, float*,
                                   float*);
template void layernorm_statistics(const core::Work&, RowShape, const core::Bf16*, double, float*,
                                   float*);
template void layernorm_statistics(const core::Work&, RowShape, const core::F16*, double, float*,
                                   float*);

template <class T>
void layernorm_apply(const core::Work& work, RowShape shape, const LayernormApply<T>& at) {
  const TraceScope scope(work.queue, kLayernormApply, rows(shape, 2 * sizeof(T)));
  launch(work, &DeviceElements<T>::layernorm_apply, &CpuElements<T>::layernorm_apply, shape, at);
}
template void layernorm_apply(const core::Work&, RowShape, const LayernormApply<float>&);
template void layernorm_apply(const core::Work&, RowShape, const LayernormApply<core::Bf16>&);
template void layernorm_apply(const core::Work&, RowShape, const LayernormApply<core::F16>&);

template <class T>
void layernorm_backward(const core::Work& work, RowShape shape, const LayernormBackward<T>& at) {
  const auto bytes = sizeof(float) + (at.residual == nullptr ? 2 : 3) * sizeof(T);
  const TraceScope scope(work.queue, kLayernormBackward,
                         rows(shape, static_cast<std::int64_t>(bytes)));
  launch(work, &DeviceElements<T>::layernorm_backward, &CpuElements<T>::layernorm_backward, shape,
         at);
}
template void layernorm_backward(const core::Work&, RowShape, const LayernormBackward<float>&);
template void layernorm_backward(const core::Work&, RowShape, const LayernormBackward<core::Bf16>&);
template void layernorm_backward(const core::Work&, RowShape, const LayernormBackward<core::F16>&);

template <class T>
void rmsnorm_rstd(const core::Work& work, RowShape shape, const T* x, double eps, float* rstd) {
  const TraceScope scope(work.queue, kRmsnormRstd, rows(shape, sizeof(T)));
  launch(work, &DeviceElements<T>::rmsnorm_rstd, &CpuElements<T>::rmsnorm_rstd, shape, x, eps,
         rstd);
}
template void rmsnorm_rstd(const core::Work&, RowShape, const float*, double, float*);
template void rmsnorm_rstd(const core::Work&, RowShape, const core::Bf16*, double, float*);
template void rmsnorm_rstd(const core::Work&, RowShape, const core::F16*, double, float*);

template <class T>
void rmsnorm_apply(const core::Work& work, RowShape shape, const T* x, NormWeight<T> weight,
                   const float* rstd, T* y) {
  const TraceScope scope(work.queue, kRmsnormApply, rows(shape, 2 * sizeof(T)));
  launch(work, &DeviceElements<T>::rmsnorm_apply, &CpuElements<T>::rmsnorm_apply, shape, x, weight,
         rstd, y);
}
template void rmsnorm_apply(const core::Work&, RowShape, const float*, NormWeight<float>,
                            const float*, float*);
template void rmsnorm_apply(const core::Work&, RowShape, const core::Bf16*, NormWeight<core::Bf16>,
                            const float*, core::Bf16*);
template void rmsnorm_apply(const core::Work&, RowShape, const core::F16*, NormWeight<core::F16>,
                            const float*, core::F16*);

template <class T>
void rmsnorm_backward(const core::Work& work, RowShape shape, const RmsnormBackward<T>& at) {
  const auto bytes = sizeof(float) + (at.residual == nullptr ? 2 : 3) * sizeof(T);
  const TraceScope scope(work.queue, kRmsnormBackward,
                         rows(shape, static_cast<std::int64_t>(bytes)));
  launch(work, &DeviceElements<T>::rmsnorm_backward, &CpuElements<T>::rmsnorm_backward, shape, at);
}
template void rmsnorm_backward(const core::Work&, RowShape, const RmsnormBackward<float>&);
template void rmsnorm_backward(const core::Work&, RowShape, const RmsnormBackward<core::Bf16>&);
template void rmsnorm_backward(const core::Work&, RowShape, const RmsnormBackward<core::F16>&);

template <class T>
void rope(const core::Work& work, const RopeTable& table, core::BatchShape shape,
          std::int64_t heads, T* x) {
  const TraceScope scope(work.queue, kRope, all_heads<T>(table, shape, heads));
  launch(work, &DeviceElements<T>::rope, &CpuElements<T>::rope, table, shape, heads, x);
}
template void rope(const core::Work&, const RopeTable&, core::BatchShape, std::int64_t, float*);
template void rope(const core::Work&, const RopeTable&, core::BatchShape, std::int64_t,
                   core::Bf16*);
template void rope(const core::Work&, const RopeTable&, core::BatchShape, std::int64_t, core::F16*);

template <class T>
void rope_inverse(const core::Work& work, const RopeTable& table, core::BatchShape shape,
                  std::int64_t heads, T* x) {
  const TraceScope scope(work.queue, kRopeInverse, all_heads<T>(table, shape, heads));
  launch(work, &DeviceElements<T>::rope_inverse, &CpuElements<T>::rope_inverse, table, shape, heads,
         x);
}
template void rope_inverse(const core::Work&, const RopeTable&, core::BatchShape, std::int64_t,
                           float*);
template void rope_inverse(const core::Work&, const RopeTable&, core::BatchShape, std::int64_t,
                           core::Bf16*);
template void rope_inverse(const core::Work&, const RopeTable&, core::BatchShape, std::int64_t,
                           core::F16*);

template <class T>
void dropout(const core::Work& work, const Dropout& by, std::uint64_t first, std::int64_t count,
             T* x) {
  const TraceScope scope(work.queue, kDropout, elements<T>(count, 2));
  launch(work, &DeviceElements<T>::dropout, &CpuElements<T>::dropout, by, first, count, x);
}
template void dropout(const core::Work&, const Dropout&, std::uint64_t, std::int64_t, float*);
template void dropout(const core::Work&, const Dropout&, std::uint64_t, std::int64_t, core::Bf16*);
template void dropout(const core::Work&, const Dropout&, std::uint64_t, std::int64_t, core::F16*);

template <class T>
void scale(const core::Work& work, std::int64_t count, float factor, T* x) {
  const TraceScope scope(work.queue, kScale, elements<T>(count, 2));
  launch(work, &DeviceElements<T>::scale, &CpuElements<T>::scale, count, factor, x);
}
template void scale(const core::Work&, std::int64_t, float, float*);
template void scale(const core::Work&, std::int64_t, float, core::Bf16*);
template void scale(const core::Work&, std::int64_t, float, core::F16*);

template <class T>
void swiglu(const core::Work& work, std::int64_t count, const T* gate, const T* up, T* y) {
  const TraceScope scope(work.queue, kSwiglu, elements<T>(count, 3));
  launch(work, &DeviceElements<T>::swiglu, &CpuElements<T>::swiglu, count, gate, up, y);
}
template void swiglu(const core::Work&, std::int64_t, const float*, const float*, float*);
template void swiglu(const core::Work&, std::int64_t, const core::Bf16*, const core::Bf16*,
                     core::Bf16*);
template void swiglu(const core::Work&, std::int64_t, const core::F16*, const core::F16*,
                     core::F16*);

template <class T>
void swiglu_backward(const core::Work& work, std::int64_t count, const SwigluBackward<T>& at) {
  const TraceScope scope(work.queue, kSwigluBackward, elements<T>(count, 5));
  launch(work, &DeviceElements<T>::swiglu_backward, &CpuElements<T>::swiglu_backward, count, at);
}
template void swiglu_backward(const core::Work&, std::int64_t, const SwigluBackward<float>&);
template void swiglu_backward(const core::Work&, std::int64_t, const SwigluBackward<core::Bf16>&);
template void swiglu_backward(const core::Work&, std::int64_t, const SwigluBackward<core::F16>&);

}  // namespace fm::kernels
