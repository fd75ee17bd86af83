#include "device/cuda/attention_pieces.h"

#include "kernels/attention/head_group.h"

namespace fm::device::cuda {
namespace {

constexpr std::int64_t kFp32 = sizeof(float);

bool is_plain(const kernels::AttentionShape& shape, core::DType element) {
  const kernels::RunsOfRow& runs = shape.runs;
  const bool whole_row = (runs.row == 0 || runs.row == shape.batch.seq_len) && runs.keys == 0 &&
                         runs.first_query == 0 && runs.first_key == 0;
  return element != core::DType::kF32 && whole_row && shape.starts_BT == nullptr &&
         shape.dropout.dropped == 0 && shape.softcap == 0.0F && shape.head_dim % 8 == 0 &&
         shape.head_dim <= 256 && shape.batch.tokens() > 0;
}

// The largest divisor of `count` that `fits`; 0: not even one.
template <class Fits>
std::int64_t largest_divisor(std::int64_t count, const Fits& fits) {
  for (std::int64_t parts = 1; parts <= count; ++parts) {
    if (count % parts == 0 && fits(count / parts)) return count / parts;
  }
  return 0;
}

}  // namespace

core::Bytes attention_workspace(const AttentionPiece& piece, int architecture) {
  constexpr std::int64_t kSpare = std::int64_t{2} << 20;
  if (!piece.backward) return core::Bytes(kSpare);
  constexpr std::int64_t kTile = 128;
  const std::int64_t tokens = core::ceil_div(piece.tokens, kTile) * kTile;
  const std::int64_t queries = piece.rows * piece.heads * tokens;
  const bool linear = architecture / 10 == 10;  // has a way of its own to add in one order
  const bool by_scores = piece.repeatable && !linear;
  const bool shared = piece.heads != piece.kv_heads;
  std::int64_t numbers = queries * piece.head_dim;
  if (shared) numbers *= architecture / 10 != 9 && !linear && !by_scores ? 3 : 2;
  std::int64_t bytes = numbers * kFp32;
  if (by_scores) bytes += queries * (2 * tokens - kFp32 * piece.head_dim);
  bytes += queries * kFp32;
  return core::Bytes(bytes + bytes / 100 + kSpare);
}

std::optional<AttentionPieces> attention_pieces(const kernels::AttentionShape& shape,
                                                core::DType element, bool repeatable,
                                                int architecture, core::Bytes workspace) {
  if (!is_plain(shape, element)) return std::nullopt;
  AttentionPiece whole{
      .element = element,
      .repeatable = repeatable,
      .rows = shape.batch.batch,
      .tokens = shape.batch.seq_len,
      .heads = shape.heads,
      .kv_heads = shape.kv_heads,
      .all_heads = shape.heads,
      .all_kv_heads = shape.kv_heads,
      .head_dim = shape.head_dim,
      .window = shape.window < shape.batch.seq_len ? shape.window : 0,
      .scale = kernels::score_scale_of({.head_dim = shape.head_dim, .scale = shape.scale})};
  AttentionPiece part = whole;
  part.backward = true;
  const auto fits = [&] { return attention_workspace(part, architecture) <= workspace; };
  part.rows = largest_divisor(whole.rows, [&](std::int64_t rows) {
    part.rows = rows;
    return fits();
  });
  if (part.rows > 0) return AttentionPieces{whole, part};
  part.rows = 1;
  const std::int64_t group = whole.heads / whole.kv_heads;
  const std::int64_t groups = largest_divisor(whole.kv_heads, [&](std::int64_t count) {
    part.kv_heads = count;
    part.heads = count * group;
    return fits();
  });
  if (groups == 0) return std::nullopt;
  part.kv_heads = groups;
  part.heads = groups * group;
  return AttentionPieces{whole, part};
}

}  // namespace fm::device::cuda
