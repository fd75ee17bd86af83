// Each thread computes one key/value head of one batch row at a time. Its results depend on nothing
// else, so neither the number of threads nor the batch changes a bit.
#include "kernels/attention/attention.h"

#include <omp.h>

#include <algorithm>
#include <utility>

#include "core/element.h"
#include "core/trace.h"
#include "kernels/attention/head_group.h"
#include "kernels/attention/here.h"
#include "kernels/cast_block.h"
#include "kernels/gemm/gemm.h"

namespace fm::kernels {
namespace {

using core::TraceForm;
using core::TraceKind;
using core::TraceScope;

constexpr TraceForm kForward = {
    "attention_forward", TraceKind::kKernel, {"rows", "tokens", "heads", "flops"}};
constexpr TraceForm kBackward = {
    "attention_backward", TraceKind::kKernel, {"rows", "tokens", "heads", "flops"}};

// A window that is at least as long as the row masks nothing.
std::int64_t window_of(const AttentionShape& shape) {
  const std::int64_t row = shape.runs.row > 0 ? shape.runs.row : shape.batch.seq_len;
  return shape.window < row ? shape.window : 0;
}

// The group of query heads of one key/value head.
HeadGroup group_of(const AttentionShape& shape) {
  return {.seq_len = shape.batch.seq_len,
          .heads = shape.heads / shape.kv_heads,
          .head_dim = shape.head_dim,
          .q_stride = shape.heads * shape.head_dim,
          .k_stride = shape.kv_heads * shape.head_dim,
          .window = window_of(shape),
          .dropout = shape.dropout,
          .row = shape.runs.row,
          .first_query = shape.runs.first_query,
          .first_key = shape.runs.first_key,
          .keys = shape.runs.keys,
          .scale = shape.scale,
          .softcap = shape.softcap};
}

HeadGroup group_at(const AttentionShape& shape, std::int64_t row, std::int64_t kv_head) {
  HeadGroup group = group_of(shape);
  const std::int64_t all_heads = shape.all_heads > 0 ? shape.all_heads : shape.heads;
  const std::int64_t heads =
      (shape.first_sample + row) * all_heads + shape.first_head + kv_head * group.heads;
  group.first_probability = probability_of(group, heads, -group.first_query);
  if (shape.starts_BT != nullptr) group.starts = shape.starts_BT + row * group.seq_len;
  return group;
}

// The number of pairs of a query and a key that it attends to.
std::int64_t pairs_of(const AttentionShape& shape) {
  const std::int64_t batch = shape.batch.batch;
  const std::int64_t tokens = shape.batch.seq_len;
  const std::int64_t hidden = window_of(shape) > 0 ? tokens - window_of(shape) : 0;
  if (shape.starts_BT == nullptr && shape.runs.row == 0)
    return batch * (tokens * (tokens + 1) - hidden * (hidden + 1)) / 2;
  std::int64_t pairs = 0;
  for (std::int64_t row = 0; row < batch; ++row) {
    const HeadGroup group = group_at(shape, row, 0);
    for (std::int64_t t = 0; t < tokens; ++t) {
      const std::int64_t end = group.keys > 0 ? group.keys : t + 1;
      pairs += std::max(end - first_key_of(group, t), std::int64_t{0});
    }
  }
  return pairs;
}

// `products`: products per pair, each of d multiply-adds, which count two.
core::TraceValues work_of(const AttentionShape& shape, std::int64_t products) {
  return {shape.batch.batch, shape.batch.seq_len, shape.heads,
          2 * products * shape.heads * pairs_of(shape) * shape.head_dim};
}

std::int64_t groups_of(const AttentionShape& shape) { return shape.batch.batch * shape.kv_heads; }

std::int64_t workers_of(const AttentionShape& shape, int threads) {
  return std::min(groups_of(shape), std::int64_t{threads});
}

// A group with the offsets of its first head in the first token of the row.
struct HeadOffsets {
  HeadGroup group;
  std::int64_t q = 0;          // in q, out and their gradients
  std::int64_t k = 0;          // in k, v and their gradients
  std::int64_t logsumexp = 0;  // [B, kv_heads, group, T]
};

HeadOffsets place_of(const AttentionShape& shape, std::int64_t index) {
  const std::int64_t row = index / shape.kv_heads;
  const std::int64_t head = index % shape.kv_heads;
  const HeadGroup group = group_at(shape, row, head);
  return {.group = group,
          .q = row * group.seq_len * group.q_stride + head * group.heads * group.head_dim,
          .k = row * key_count_of(group) * group.k_stride + head * group.head_dim,
          .logsumexp = index * group.heads * group.seq_len};
}

// fp32 copies of the arrays of one group in the arena, heads side by side. Attention computes in
// fp32.
class GroupCopies {
 public:
  GroupCopies(const HeadGroup& stored, float* memory)
      : stored_(stored), packed_(stored), free_(memory) {
    packed_.q_stride = stored.heads * stored.head_dim;
    packed_.k_stride = stored.head_dim;
  }
  // The elements of `queries` arrays like q and `keys` arrays like k.
  static std::int64_t elements(const HeadGroup& stored, int queries, int keys) {
    const GroupCopies sizes(stored, nullptr);
    return queries * rounded(sizes.rows_q()) + keys * rounded(sizes.rows_k());
  }

  const HeadGroup& group() const { return packed_; }
  float* q() { return take(rows_q()); }
  float* k() { return take(rows_k()); }
  template <class T>
  const float* q(const T* from) {
    return copy(rows_q(), from, stored_.q_stride);
  }
  template <class T>
  const float* k(const T* from) {
    return copy(rows_k(), from, stored_.k_stride);
  }
  float* rest() { return free_; }
  template <class T>
  void store_q(const float* from, T* to) const {
    cast_block(rows_q(), from, packed_.q_stride, to, stored_.q_stride);
  }
  template <class T>
  void store_k(const float* from, T* to) const {
    cast_block(rows_k(), from, packed_.k_stride, to, stored_.k_stride);
  }

 private:
  static std::int64_t rounded(RowShape rows) {
    return core::Arena::aligned<float>(rows.rows * rows.width) / core::size_of(core::DType::kF32);
  }
  RowShape rows_q() const { return {packed_.seq_len, packed_.q_stride}; }
  RowShape rows_k() const { return {key_count_of(packed_), packed_.k_stride}; }
  float* take(RowShape rows) { return std::exchange(free_, free_ + rounded(rows)); }
  template <class T>
  const float* copy(RowShape rows, const T* from, std::int64_t stride) {
    float* const to = take(rows);
    cast_block(rows, from, stride, to, rows.width);
    return to;
  }

  HeadGroup stored_, packed_;
  float* free_;
};

std::int64_t narrow_forward_each(const HeadGroup& group) {
  return GroupCopies::elements(group, 2, 2) + group_attention_forward_scratch(group);
}
std::int64_t narrow_backward_each(const HeadGroup& group) {
  return GroupCopies::elements(group, 4, 4) + group_attention_backward_scratch(group);
}

// Calls run(index of the group, memory of `each` elements) for every group, on all threads.
template <class Run>
void for_every_group(const AttentionShape& shape, std::int64_t each, core::Work& work,
                     const Run& run) {
  const core::Arena::Scope scope(work.arena);
  const std::int64_t groups = groups_of(shape);
  const auto workers = static_cast<int>(workers_of(shape, work.threads));
  const std::int64_t apart = core::Arena::aligned<float>(each) / core::size_of(core::DType::kF32);
  float* memory = work.arena.take<float>(workers * apart);
  if (workers == 1) {
    for (std::int64_t i = 0; i < groups; ++i) run(i, memory);
    return;
  }
#pragma omp parallel for num_threads(workers) schedule(static)
  for (std::int64_t i = 0; i < groups; ++i) run(i, memory + omp_get_thread_num() * apart);
}

}  // namespace

template <>
AttentionScratch attention_scratch<float>(const AttentionShape& shape, int threads) {
  const HeadGroup group = group_of(shape);
  const std::int64_t workers = workers_of(shape, threads);
  const auto all_of = [&](std::int64_t each) {
    return core::Arena::aligned<float>(each) * workers;
  };
  return {.forward = all_of(group_attention_forward_scratch(group)),
          .backward = all_of(group_attention_backward_scratch(group))};
}

template <>
void attention_forward_here<float>(core::Work& work, const AttentionShape& shape,
                                   const AttentionForward<float>& arrays) {
  const TraceScope scope(kForward, work_of(shape, 2));
  const HeadGroup group = group_of(shape);
  for_every_group(shape, group_attention_forward_scratch(group), work,
                  [&](std::int64_t index, float* memory) {
                    const HeadOffsets place = place_of(shape, index);
                    group_attention_forward(place.group,
                                            {.q = arrays.q + place.q,
                                             .k = arrays.k + place.k,
                                             .v = arrays.v + place.k,
                                             .out = arrays.out + place.q,
                                             .logsumexp = arrays.logsumexp + place.logsumexp},
                                            memory);
                  });
}

template <>
void attention_backward_here<float>(core::Work& work, const AttentionShape& shape,
                                    const AttentionBackward<float>& arrays) {
  const TraceScope scope(kBackward, work_of(shape, 5));
  const HeadGroup group = group_of(shape);
  for_every_group(shape, group_attention_backward_scratch(group), work,
                  [&](std::int64_t index, float* memory) {
                    const HeadOffsets place = place_of(shape, index);
                    group_attention_backward(place.group,
                                             {.q = arrays.q + place.q,
                                              .k = arrays.k + place.k,
                                              .v = arrays.v + place.k,
                                              .out = arrays.out + place.q,
                                              .logsumexp = arrays.logsumexp + place.logsumexp,
                                              .dout = arrays.dout + place.q,
                                              .dq = arrays.dq + place.q,
                                              .dk = arrays.dk + place.k,
                                              .dv = arrays.dv + place.k},
                                             memory);
                  });
}

template <class T>
AttentionScratch attention_scratch(const AttentionShape& shape, int threads) {
  const HeadGroup group = group_of(shape);
  const std::int64_t workers = workers_of(shape, threads);
  return {.forward = core::Arena::aligned<float>(narrow_forward_each(group)) * workers,
          .backward = core::Arena::aligned<float>(narrow_backward_each(group)) * workers};
}

template <class T>
void attention_forward_here(core::Work& work, const AttentionShape& shape,
                            const AttentionForward<T>& arrays) {
  const TraceScope scope(kForward, work_of(shape, 2));
  const HeadGroup group = group_of(shape);
  const auto run = [&](std::int64_t index, float* memory) {
    const HeadOffsets place = place_of(shape, index);
    GroupCopies copies(place.group, memory);
    const float* const q = copies.q(arrays.q + place.q);
    const float* const k = copies.k(arrays.k + place.k);
    const float* const v = copies.k(arrays.v + place.k);
    float* const out = copies.q();
    group_attention_forward(
        copies.group(),
        {.q = q, .k = k, .v = v, .out = out, .logsumexp = arrays.logsumexp + place.logsumexp},
        copies.rest());
    copies.store_q(out, arrays.out + place.q);
  };
  for_every_group(shape, narrow_forward_each(group), work, run);
}

template <class T>
void attention_backward_here(core::Work& work, const AttentionShape& shape,
                             const AttentionBackward<T>& arrays) {
  const TraceScope scope(kBackward, work_of(shape, 5));
  const HeadGroup group = group_of(shape);
  const auto run = [&](std::int64_t index, float* memory) {
    const HeadOffsets place = place_of(shape, index);
    GroupCopies copies(place.group, memory);
    const float* const q = copies.q(arrays.q + place.q);
    const float* const k = copies.k(arrays.k + place.k);
    const float* const v = copies.k(arrays.v + place.k);
    const float* const out = copies.q(arrays.out + place.q);
    const float* const dout = copies.q(arrays.dout + place.q);
    float* const dq = copies.q();
    float* const dk = copies.k();
    float* const dv = copies.k();
    group_attention_backward(copies.group(),
                             {.q = q,
                              .k = k,
                              .v = v,
                              .out = out,
                              .logsumexp = arrays.logsumexp + place.logsumexp,
                              .dout = dout,
                              .dq = dq,
                              .dk = dk,
                              .dv = dv},
                             copies.rest());
    copies.store_q(dq, arrays.dq + place.q);
    copies.store_k(dk, arrays.dk + place.k);
    copies.store_k(dv, arrays.dv + place.k);
  };
  for_every_group(shape, narrow_backward_each(group), work, run);
}

template AttentionScratch attention_scratch<core::Bf16>(const AttentionShape&, int);
template AttentionScratch attention_scratch<core::F16>(const AttentionShape&, int);
template void attention_forward_here(core::Work&, const AttentionShape&,
                                     const AttentionForward<core::Bf16>&);
template void attention_forward_here(core::Work&, const AttentionShape&,
                                     const AttentionForward<core::F16>&);
template void attention_backward_here(core::Work&, const AttentionShape&,
                                      const AttentionBackward<core::Bf16>&);
template void attention_backward_here(core::Work&, const AttentionShape&,
                                      const AttentionBackward<core::F16>&);

std::string attention_library() { return amx_chosen() ? "own (AMX)" : "own"; }

}  // namespace fm::kernels
