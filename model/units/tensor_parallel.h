// Tensor parallelism (Megatron-LM, arXiv 1909.08053) inside the units: which heads, columns and
// vocabulary rows one of several ranks has, and the sums over these ranks.
//
// Queries, keys, values, gate and up are cut by their outputs, so that a rank computes heads and
// MLP columns of its own; attention's output and down are cut by their inputs, and what the ranks
// have of a product is summed. Gradients of what all ranks read are summed in the same way.
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

// Where there are more ranks than key and value heads, neighbours have the same one (`holder`).
struct TensorParts {
  core::Share share;
  core::IndexRange heads, kv_heads, ffn, vocab;
  std::int64_t heads_of_all = 0, kv_heads_of_all = 0, ffn_of_all = 0;

  bool alone() const { return share.count == 1; }
};

// Throws UserError (10) that names what cannot be cut and which sizes can.
TensorParts tensor_parts(const DecoderConfig& config, core::Share share);
// The configuration of the blocks of one rank: its heads and columns.
DecoderConfig rank_config(DecoderConfig config, const TensorParts& parts);

// Elements of a range of heads, behind `offset` of others.
inline core::IndexRange widened(core::IndexRange range, std::int64_t width, std::int64_t offset) {
  return {offset + range.first * width, range.count * width, range.holder};
}

// values [count] become their sum over the ranks; nothing where this one is alone.
inline void sum_over(comm::Communicator* tensor, std::int64_t count, float* values) {
  if (tensor == nullptr) return;
  tensor->all_reduce({values, core::Elements(count), core::DType::kF32}).wait();
}
inline void sum_over(comm::Communicator* tensor, std::int64_t count, double* values) {
  if (tensor == nullptr) return;
  tensor->all_reduce({values, core::Elements(count), core::DType::kF64}).wait();
}

// What a rank sends in sums and gathers of n bytes among `ranks` ranks, at least: to sum is to
// scatter the sums and to gather them again, and each sends (ranks - 1) / ranks n.
class TensorTraffic {
 public:
  explicit TensorTraffic(int ranks) : ranks_(ranks) {}
  // stays_cut: every rank takes its part of the sums and no more.
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
  std::int64_t halves_ = 0;  // bytes that are scattered or gathered
};

// The tokens of a micro-batch that this rank has between products (Megatron-LM's sequence
// parallelism, arXiv 2205.05198); all of them where that is off. A sum over the ranks then is
// scattered, and what products read is gathered.
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

// rows [all, width], of which this rank wrote its own -> those of all.
template <class T>
void gather_tokens(comm::Communicator* tensor, const TokenPart& part, std::int64_t width, T* rows) {
  if (!part.some()) return;
  check_parts(tensor, part);
  constexpr bool kWide = std::is_same_v<T, float>;
  constexpr core::DType kNarrow =
      std::is_same_v<T, core::F16> ? core::DType::kF16 : core::DType::kBF16;
  constexpr core::DType type = kWide ? core::DType::kF32 : kNarrow;
  tensor
      ->all_gather({rows + part.first * width, core::Elements(part.count * width), type},
                   {rows, core::Elements(part.all * width), type})
      .wait();
}
// Sums of rows [all, width] over the ranks: this rank's own rows, in their place.
inline float* sum_tokens(comm::Communicator* tensor, const TokenPart& part, std::int64_t width,
                         float* rows) {
  float* const own = rows + part.first * width;
  if (!part.some()) {
    sum_over(tensor, part.all * width, rows);
    return own;
  }
  check_parts(tensor, part);
  tensor
      ->reduce_scatter({rows, core::Elements(part.all * width), core::DType::kF32},
                       {own, core::Elements(part.count * width), core::DType::kF32})
      .wait();
  return own;
}

// Numbers between fp32 and the type of the model.
template <class From, class To>
void convert(const core::Work& work, std::int64_t count, const From* from, To* to) {
  if constexpr (std::is_same_v<From, To>) {
    kernels::copy(work, count, from, to);
  } else {
    kernels::cast(count, from, to);
  }
}

}  // namespace fm::model
