// One key/value head of one batch row at a time, by whichever thread: its numbers depend on nothing
// else, so neither the number of threads nor the batch changes a bit.
#include <omp.h>

#include <algorithm>

#include "kernels/attention.h"
#include "kernels/gemm.h"
#include "model/attention_kinds.h"

namespace fm::model {
namespace {

kernels::HeadGroup group_of(const AttentionShape& shape) {
  return {.seq_len = shape.batch.seq_len,
          .heads = shape.heads / shape.kv_heads,
          .head_dim = shape.head_dim,
          .q_stride = shape.heads * shape.head_dim,
          .k_stride = shape.kv_heads * shape.head_dim};
}

std::int64_t groups_of(const AttentionShape& shape) { return shape.batch.batch * shape.kv_heads; }

std::int64_t workers_of(const AttentionShape& shape) {
  return std::min(groups_of(shape), std::int64_t{kernels::kernel_threads()});
}

// Where the group's first head begins in the row's first token.
struct Place {
  std::int64_t q = 0;          // in q, out and their gradients
  std::int64_t k = 0;          // in k, v and their gradients
  std::int64_t logsumexp = 0;  // [B, kv_heads, group, T]
};

Place place_of(const AttentionShape& shape, std::int64_t index) {
  const kernels::HeadGroup group = group_of(shape);
  const std::int64_t row = index / shape.kv_heads;
  const std::int64_t head = index % shape.kv_heads;
  return {.q = row * group.seq_len * group.q_stride + head * group.heads * group.head_dim,
          .k = row * group.seq_len * group.k_stride + head * group.head_dim,
          .logsumexp = index * group.heads * group.seq_len};
}

// run(index of the group, memory of `each` elements), on all workers.
template <class Run>
void for_every_group(const AttentionShape& shape, std::int64_t each, core::Arena& scratch,
                     const Run& run) {
  const core::Arena::Scope scope(scratch);
  const std::int64_t groups = groups_of(shape);
  const auto workers = static_cast<int>(workers_of(shape));
  const std::int64_t apart = core::Arena::aligned<float>(each) / core::size_of(core::DType::kF32);
  float* memory = scratch.take<float>(workers * apart);
  if (workers == 1) {
    for (std::int64_t i = 0; i < groups; ++i) run(i, memory);
    return;
  }
#pragma omp parallel for num_threads(workers) schedule(static)
  for (std::int64_t i = 0; i < groups; ++i) run(i, memory + omp_get_thread_num() * apart);
}

}  // namespace

template <>
AttentionScratch own_attention_scratch<float>(const AttentionShape& shape) {
  const kernels::HeadGroup group = group_of(shape);
  const std::int64_t workers = workers_of(shape);
  const auto all_of = [&](std::int64_t each) {
    return core::Arena::aligned<float>(each) * workers;
  };
  return {.forward = all_of(kernels::attention_forward_scratch(group)),
          .backward = all_of(kernels::attention_backward_scratch(group))};
}

template <>
void own_attention_forward<float>(const AttentionShape& shape, const AttentionForward<float>& at,
                                  core::Arena& scratch) {
  const kernels::HeadGroup group = group_of(shape);
  for_every_group(shape, kernels::attention_forward_scratch(group), scratch,
                  [&](std::int64_t index, float* memory) {
                    const Place place = place_of(shape, index);
                    kernels::attention_forward(group,
                                               {.q = at.q + place.q,
                                                .k = at.k + place.k,
                                                .v = at.v + place.k,
                                                .out = at.out + place.q,
                                                .logsumexp = at.logsumexp + place.logsumexp},
                                               memory);
                  });
}

template <>
void own_attention_backward<float>(const AttentionShape& shape, const AttentionBackward<float>& at,
                                   core::Arena& scratch) {
  const kernels::HeadGroup group = group_of(shape);
  for_every_group(shape, kernels::attention_backward_scratch(group), scratch,
                  [&](std::int64_t index, float* memory) {
                    const Place place = place_of(shape, index);
                    kernels::attention_backward(group,
                                                {.q = at.q + place.q,
                                                 .k = at.k + place.k,
                                                 .v = at.v + place.k,
                                                 .out = at.out + place.q,
                                                 .logsumexp = at.logsumexp + place.logsumexp,
                                                 .dout = at.dout + place.q,
                                                 .dq = at.dq + place.q,
                                                 .dk = at.dk + place.k,
                                                 .dv = at.dv + place.k},
                                                memory);
                  });
}

}  // namespace fm::model
