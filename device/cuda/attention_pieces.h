// What a library of attention is asked for: a call, or pieces of it that fit its work space.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>

#include "core/types.h"
#include "kernels/attention/attention.h"

namespace fm::device::cuda {

// Some rows of the batch, and of these some heads with the keys and values that they read: q, out
// [rows, T, heads, d] of arrays whose tokens have `all_heads`, and k, v alike. A number per query
// lies in [rows, heads, T]. Scores are causal.
struct AttentionPiece {
  core::DType element = core::DType::kBF16;
  bool backward = false;
  bool repeatable = true;  // the backward pass adds in one order (the forward pass always does)
  std::int64_t rows = 0;
  std::int64_t tokens = 0;  // T
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  // divides heads
  std::int64_t all_heads = 0;
  std::int64_t all_kv_heads = 0;
  std::int64_t head_dim = 0;  // d
  std::int64_t window = 0;    // keys that a query attends to, its own last; 0: all up to its own
  float scale = 0.0F;         // of a score
  constexpr auto operator<=>(const AttentionPiece&) const = default;
};

// The work space that cuDNN wants, as measured with 9.19 on plans for 8.0, 9.0 and 10.0 (there is
// no formula of its own), and 1 % and 2 MiB to spare; `architecture`: 90 for 9.0. Forward: a few
// bytes. Backward: dq in fp32, or,
// in one order but on 10.x, a 16-bit number per query and key; gradients of keys and values per
// query head in fp32 where heads share them; a number per query.
core::Bytes attention_workspace(const AttentionPiece& piece, int architecture);

struct AttentionPieces {
  AttentionPiece forward;   // the whole call
  AttentionPiece backward;  // all pieces of a call are alike
};
// How a library does the calls of this shape whose elements are `element`: the backward pass in the
// largest pieces that `workspace` bytes suffice for, first whole rows, then groups of heads.
// Nothing: it cannot, or a query's numbers are not in the arrays as a library wants them: fp32,
// dropout, documents, a softcap, a run of a longer row, or heads of other than a multiple of 8
// numbers, up to 256.
std::optional<AttentionPieces> attention_pieces(const kernels::AttentionShape& shape,
                                                core::DType element, bool repeatable,
                                                int architecture, core::Bytes workspace);

}  // namespace fm::device::cuda
