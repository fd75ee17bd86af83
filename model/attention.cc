#include "model/attention.h"

#include "core/bf16.h"
#include "core/check.h"
#include "core/trace.h"
#include "kernels/gemm/gemm.h"
#include "model/attention_kinds.h"

namespace fm::model {
namespace {

using core::TraceForm;
using core::TraceKind;
using core::TraceScope;

constexpr TraceForm kForward = {
    "attention_forward", TraceKind::kKernel, {"rows", "tokens", "heads", "flops"}};
constexpr TraceForm kBackward = {
    "attention_backward", TraceKind::kKernel, {"rows", "tokens", "heads", "flops"}};

// `products`: of T x T by d, of which the causal half counts; multiply-adds count two.
core::TraceValues work_of(const AttentionShape& shape, std::int64_t products) {
  const std::int64_t batch = shape.batch.batch;
  const std::int64_t tokens = shape.batch.seq_len;
  return {batch, tokens, shape.heads,
          products * batch * shape.heads * tokens * (tokens + 1) * shape.head_dim};
}

}  // namespace

template <class T>
void attention_forward(const AttentionShape& shape, const AttentionForward<T>& at,
                       core::Arena& scratch) {
  const TraceScope scope(kForward, work_of(shape, 2));
  switch (shape.kind) {
    case AttentionKind::kOwn: return own_attention_forward(shape, at, scratch);
    case AttentionKind::kTorch:
      if constexpr (std::is_same_v<T, float>) {
        return torch_attention().forward(shape, at, kernels::kernel_threads());
      }
      FM_CHECK(false, "LibTorch's attention computes fp32 here");
  }
}

template <class T>
void attention_backward(const AttentionShape& shape, const AttentionBackward<T>& at,
                        core::Arena& scratch) {
  const TraceScope scope(kBackward, work_of(shape, 5));
  switch (shape.kind) {
    case AttentionKind::kOwn: return own_attention_backward(shape, at, scratch);
    case AttentionKind::kTorch:
      if constexpr (std::is_same_v<T, float>) {
        return torch_attention().backward(shape, at, kernels::kernel_threads());
      }
      FM_CHECK(false, "LibTorch's attention computes fp32 here");
  }
}

template <class T>
AttentionScratch attention_scratch(const AttentionShape& shape) {
  switch (shape.kind) {
    case AttentionKind::kOwn: return own_attention_scratch<T>(shape);
    case AttentionKind::kTorch: break;
  }
  return {};
}

template void attention_forward<float>(const AttentionShape&, const AttentionForward<float>&,
                                       core::Arena&);
template void attention_backward<float>(const AttentionShape&, const AttentionBackward<float>&,
                                        core::Arena&);
template AttentionScratch attention_scratch<float>(const AttentionShape&);
template void attention_forward<core::Bf16>(const AttentionShape&,
                                            const AttentionForward<core::Bf16>&, core::Arena&);
template void attention_backward<core::Bf16>(const AttentionShape&,
                                             const AttentionBackward<core::Bf16>&, core::Arena&);
template AttentionScratch attention_scratch<core::Bf16>(const AttentionShape&);

std::string attention_library(AttentionKind kind) {
  switch (kind) {
    case AttentionKind::kOwn: break;
    case AttentionKind::kTorch: return torch_attention().library();
  }
  return kernels::amx_chosen() ? "own (AMX)" : "own";
}

}  // namespace fm::model
