// Tensor parallelism (Megatron-LM, arXiv 1909.08053) inside the units: the heads, columns and
// vocabulary rows of a rank, and the sums over the tensor-parallel ranks.
//
// Queries, keys, values, gate and up are column-parallel, so a rank computes its own heads and MLP
// columns; attention's output and down are row-parallel, and the partial products of the ranks are
// summed. Gradients of inputs that all ranks read are summed in the same way.
#pragma once

#include <type_traits>
#include <vector>

#include "comm/communicator.h"
#include "core/check.h"
#include "core/element.h"
#include "core/param_table.h"
#include "core/work.h"
#include "kernels/pointwise/elements.h"
#include "kernels/pointwise/moves.h"
#include "model/choices.h"
#include "model/families/decoder_config.h"

namespace fm::model {

// Where there are more ranks than key and value heads, neighbouring ranks hold the same head
// (`holder`).
struct TensorParts {
  core::Share share;
  core::IndexRange heads, kv_heads, ffn, vocab;
  std::int64_t heads_of_all = 0, kv_heads_of_all = 0, ffn_of_all = 0;

  bool alone() const { return share.count == 1; }
};

// Throws UserError (10) that names a size that cannot be split and the sizes that can.
TensorParts tensor_parts(const DecoderConfig& config, core::Share share);
// The configuration of the blocks of one rank: its heads and columns.
DecoderConfig rank_config(DecoderConfig config, const TensorParts& parts);

// The elements of a range of heads, after `offset` other elements.
inline core::IndexRange widened(core::IndexRange range, std::int64_t width, std::int64_t offset) {
  return {offset + range.first * width, range.count * width, range.holder};
}

// Replaces values [count] by their sum over the ranks; does nothing where this rank is alone.
inline void sum_over(const core::Work& work, comm::Communicator* tensor, std::int64_t count,
                     float* values) {
  if (tensor == nullptr) return;
  tensor->all_reduce({values, core::Elements(count), core::DType::kF32}).wait(work);
}
inline void sum_over(const core::Work& work, comm::Communicator* tensor, std::int64_t count,
                     double* values) {
  if (tensor == nullptr) return;
  tensor->all_reduce({values, core::Elements(count), core::DType::kF64}).wait(work);
}

// The least bytes that a rank sends in sums and gathers of n bytes among `ranks` ranks: an
// all-reduce is a reduce-scatter and an all-gather, and each sends (ranks - 1) / ranks n.
class TensorTraffic {
 public:
  explicit TensorTraffic(int ranks) : ranks_(ranks) {}
  // stays_cut: a reduce-scatter only, where every rank takes its own part of the sums.
  template <class E>
  void sum(std::int64_t elements, bool stays_cut = false) {
    halves_ += (stays_cut ? 1 : 2) * elements * static_cast<std::int64_t>(sizeof(E));
  }
  template <class E>
  void gather(std::int64_t elements) {
    halves_ += elements * static_cast<std::int64_t>(sizeof(E));
  }
  core::Bytes sent() const { return core::Bytes(halves_ * (ranks_ - 1) / ranks_); }

 private:
  int ranks_;
  std::int64_t halves_ = 0;  // bytes of reduce-scatters and all-gathers
};

// The tokens of a micro-batch that this rank has between products (Megatron-LM's sequence
// parallelism, arXiv 2205.05198); all tokens where that is off. Sums over the ranks are then
// reduce-scattered, and the inputs of products are gathered.
struct TokenPart {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t all = 0;

  bool some() const { return count < all; }
};
inline TokenPart token_part(std::int64_t tokens, const ModelChoices& choices) {
  if (!choices.split_tokens) return {.first = 0, .count = tokens, .all = tokens};
  const std::int64_t each = tokens / choices.share.count;
  return {.first = each * choices.share.index, .count = each, .all = tokens};
}

// That the parts of all ranks are all tokens.
inline void check_parts(const comm::Communicator* tensor, const TokenPart& part) {
  FM_CHECK(tensor != nullptr && part.count * tensor->size() == part.all &&
               part.first == part.count * tensor->rank(),
           "ranks have equal parts of ", part.all, " tokens, and this one has ", part.count,
           " from ", part.first);
}

// Gathers rows [all, width] in place: every rank has written its own rows.
template <class T>
void gather_tokens(const core::Work& work, comm::Communicator* tensor, const TokenPart& part,
                   std::int64_t width, T* rows) {
  if (!part.some()) return;
  check_parts(tensor, part);
  constexpr bool kWide = std::is_same_v<T, float>;
  constexpr core::DType kNarrow =
      std::is_same_v<T, core::F16> ? core::DType::kF16 : core::DType::kBF16;
  constexpr core::DType type = kWide ? core::DType::kF32 : kNarrow;
  tensor
      ->all_gather({rows + part.first * width, core::Elements(part.count * width), type},
                   {rows, core::Elements(part.all * width), type})
      .wait(work);
}
// Sums rows [all, width] over the ranks, in place; returns this rank's own rows.
inline float* sum_tokens(const core::Work& work, comm::Communicator* tensor, const TokenPart& part,
                         std::int64_t width, float* rows) {
  float* const own = rows + part.first * width;
  if (!part.some()) {
    sum_over(work, tensor, part.all * width, rows);
    return own;
  }
  check_parts(tensor, part);
  tensor
      ->reduce_scatter({rows, core::Elements(part.all * width), core::DType::kF32},
                       {own, core::Elements(part.count * width), core::DType::kF32})
      .wait(work);
  return own;
}

// Converts between fp32 and the element type of the model.
template <class From, class To>
void convert(const core::Work& work, std::int64_t count, const From* from, To* to) {
  if constexpr (std::is_same_v<From, To>) {
    kernels::copy(work, count, from, to);
  } else {
    kernels::cast(work, count, from, to);
  }
}

}  // namespace fm::model
