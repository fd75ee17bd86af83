// The public products and attention, as variants/dispatch.cc has the other kernels.
#include "kernels/attention/here.h"
#include "kernels/gemm/libraries.h"
#include "kernels/variants/dispatch.h"

namespace fm::kernels {
namespace {

using dispatch::need;
using dispatch::of_type;

constexpr core::TraceForm kGemm = {"gemm", core::TraceKind::kKernel, {"m", "n", "k", "flops"}};

constexpr core::TraceForm kMerge = {
    "merge_partial_softmax", core::TraceKind::kKernel, {"queries", "heads", "head_dim"}};

// On a device; here attention counts the pairs of its documents, too.
constexpr core::TraceForm kAttentionForward = {
    "attention_forward", core::TraceKind::kKernel, {"rows", "tokens", "heads"}};
constexpr core::TraceForm kAttentionBackward = {
    "attention_backward", core::TraceKind::kKernel, {"rows", "tokens", "heads"}};

core::TraceValues attention_values(const AttentionShape& shape) {
  return {shape.batch.batch, shape.batch.seq_len, shape.heads};
}

template <class T>
const DeviceProducts<T>& products_of(const core::Work& work) {
  return of_type<T>(dispatch::kernels_of(work).products);
}

template <class T, class C>
void multiply(const core::Work& work, const GemmShape& shape, const Operand<T>& a,
              const Operand<T>& b, const Target<C>& c) {
  const core::TraceScope scope(work.queue, kGemm,
                               {shape.m, shape.n, shape.k, 2 * shape.m * shape.n * shape.k});
  if (work.queue == nullptr) return gemm_here(work, shape, a, b, in_place(work, shape, c));
  if constexpr (std::is_same_v<C, float>) {
    need(products_of<T>(work).gemm)(work, shape, a, b, c);
  } else {
    need(products_of<T>(work).narrow_gemm)(work, shape, a, b, c);
  }
}

}  // namespace

void gemm(const core::Work& work, const GemmShape& shape, const Operand<float>& a,
          const Operand<float>& b, const Target<float>& c) {
  multiply(work, shape, a, b, c);
}
void gemm(const core::Work& work, const GemmShape& shape, const Operand<core::Bf16>& a,
          const Operand<core::Bf16>& b, const Target<float>& c) {
  multiply(work, shape, a, b, c);
}
void gemm(const core::Work& work, const GemmShape& shape, const Operand<core::Bf16>& a,
          const Operand<core::Bf16>& b, const Target<core::Bf16>& c) {
  multiply(work, shape, a, b, c);
}
void gemm(const core::Work& work, const GemmShape& shape, const Operand<core::F16>& a,
          const Operand<core::F16>& b, const Target<float>& c) {
  multiply(work, shape, a, b, c);
}
void gemm(const core::Work& work, const GemmShape& shape, const Operand<core::F16>& a,
          const Operand<core::F16>& b, const Target<core::F16>& c) {
  multiply(work, shape, a, b, c);
}

template <class T>
void attention_forward(core::Work& work, const AttentionShape& shape,
                       const AttentionForward<T>& arrays) {
  if (work.queue == nullptr) return attention_forward_here(work, shape, arrays);
  const core::TraceScope scope(work.queue, kAttentionForward, attention_values(shape));
  need(products_of<T>(work).attention_forward)(work, shape, arrays);
}
template void attention_forward(core::Work&, const AttentionShape&, const AttentionForward<float>&);
template void attention_forward(core::Work&, const AttentionShape&,
                                const AttentionForward<core::Bf16>&);
template void attention_forward(core::Work&, const AttentionShape&,
                                const AttentionForward<core::F16>&);

template <class T>
void attention_backward(core::Work& work, const AttentionShape& shape,
                        const AttentionBackward<T>& arrays) {
  if (work.queue == nullptr) return attention_backward_here(work, shape, arrays);
  const core::TraceScope scope(work.queue, kAttentionBackward, attention_values(shape));
  need(products_of<T>(work).attention_backward)(work, shape, arrays);
}
template void attention_backward(core::Work&, const AttentionShape&,
                                 const AttentionBackward<float>&);
template void attention_backward(core::Work&, const AttentionShape&,
                                 const AttentionBackward<core::Bf16>&);
template void attention_backward(core::Work&, const AttentionShape&,
                                 const AttentionBackward<core::F16>&);

template <class T>
void attention_cached(core::Work& work, const CachedShape& shape, const CachedSequence& sequence,
                      const T* q_THd, T* out_THd) {
  if (work.queue == nullptr) {
    return attention_cached_here(work, shape, sequence, q_THd, out_THd);
  }
  need(products_of<T>(work).attention_cached)(work, shape, sequence, q_THd, out_THd);
}
template void attention_cached(core::Work&, const CachedShape&, const CachedSequence&, const float*,
                               float*);
template void attention_cached(core::Work&, const CachedShape&, const CachedSequence&,
                               const core::Bf16*, core::Bf16*);
template void attention_cached(core::Work&, const CachedShape&, const CachedSequence&,
                               const core::F16*, core::F16*);

void merge_partial_softmax(const core::Work& work, const PartialShape& shape,
                           const PartialSoftmax& now, const PartialSoftmax& all) {
  const core::TraceScope scope(work.queue, kMerge, {shape.queries, shape.heads, shape.head_dim});
  if (work.queue == nullptr) return merge_partial_softmax_here(work, shape, now, all);
  need(dispatch::kernels_of(work).merge_partial_softmax)(work, shape, now, all);
}

}  // namespace fm::kernels
