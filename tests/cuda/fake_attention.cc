#include "tests/cuda/fake_attention.h"

#include <algorithm>
#include <span>

#include "core/check.h"

namespace fm::device::cuda {
namespace {

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

// [rows, T, heads, d] out of tokens of `all` heads, and back.
template <class T>
struct Copies {
  const AttentionPiece& piece;

  template <class Move>
  void each_token(std::int64_t heads, std::int64_t all, const Move& move) const {
    const std::int64_t width = heads * piece.head_dim;
    for (std::int64_t token = 0; token < piece.rows * piece.tokens; ++token) {
      move(token * all * piece.head_dim, token * width, width);
    }
  }
  std::vector<T> out_of(const void* from, std::int64_t heads, std::int64_t all) const {
    std::vector<T> to(index(piece.rows * piece.tokens * heads * piece.head_dim));
    each_token(heads, all, [&](std::int64_t there, std::int64_t here, std::int64_t width) {
      std::copy_n(static_cast<const T*>(from) + there, width, to.begin() + here);
    });
    return to;
  }
  void into(void* to, const std::vector<T>& from, std::int64_t heads, std::int64_t all) const {
    each_token(heads, all, [&](std::int64_t there, std::int64_t here, std::int64_t width) {
      std::copy_n(from.begin() + here, width, static_cast<T*>(to) + there);
    });
  }
  std::vector<T> heads(const void* from) const {
    return out_of(from, piece.heads, piece.all_heads);
  }
  std::vector<T> keys(const void* from) const {
    return out_of(from, piece.kv_heads, piece.all_kv_heads);
  }
};

template <class T>
void compute(const AttentionPiece& piece, const PieceArrays& at) {
  kernels::AttentionShape shape;
  shape.batch = {piece.rows, piece.tokens};
  shape.heads = piece.heads;
  shape.kv_heads = piece.kv_heads;
  shape.head_dim = piece.head_dim;
  shape.window = piece.window;
  shape.scale = piece.scale;
  const kernels::AttentionScratch scratch = kernels::attention_scratch<T>(shape, 1);
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> memory(
      index(std::max(scratch.forward, scratch.backward).count()) / sizeof(Line) + 1);
  core::Work work{.arena = core::Arena(std::as_writable_bytes(std::span(memory)))};
  const Copies<T> copies{piece};
  const std::vector<T> q = copies.heads(at.q);
  const std::vector<T> k = copies.keys(at.k);
  const std::vector<T> v = copies.keys(at.v);
  std::vector<T> out(q.size());
  std::vector<float> sums(index(piece.rows * piece.heads * piece.tokens));
  if (!piece.backward) {
    kernels::attention_forward<T>(work, shape,
                                  {q.data(), k.data(), v.data(), out.data(), sums.data()});
    copies.into(at.out, out, piece.heads, piece.all_heads);
    for (float& sum : sums) sum *= piece.scale;  // the kernels' are of scores before it
    std::ranges::copy(sums, at.sums);
    return;
  }
  out = copies.heads(at.out);
  std::copy_n(at.sums, sums.size(), sums.begin());
  for (float& sum : sums) sum /= piece.scale;
  const std::vector<T> dout = copies.heads(at.dout);
  std::vector<T> dq(q.size());
  std::vector<T> dk(k.size());
  std::vector<T> dv(k.size());
  kernels::attention_backward<T>(work, shape,
                                 {q.data(), k.data(), v.data(), out.data(), sums.data(),
                                  dout.data(), dq.data(), dk.data(), dv.data()});
  copies.into(at.dq, dq, piece.heads, piece.all_heads);
  copies.into(at.dk, dk, piece.kv_heads, piece.all_kv_heads);
  copies.into(at.dv, dv, piece.kv_heads, piece.all_kv_heads);
}

}  // namespace

std::optional<core::Bytes> FakeAttention::prepare(const AttentionPiece& piece) {
  prepared.push_back(piece);
  if (refuses(piece)) return std::nullopt;
  return wants;
}

void FakeAttention::run(void* stream, const AttentionPiece& piece, const PieceArrays& arrays,
                        void*) {
  FM_CHECK(std::ranges::count(prepared, piece) == 1, "a piece is prepared once, before it runs");
  ran.push_back(piece);
  place_.push(stream, [see = place_.see, stream, piece, arrays] {
    const auto read = [&](const void* at) { return at == nullptr ? at : see(stream, at); };
    const auto written = [&](auto* at) {
      return static_cast<decltype(at)>(const_cast<void*>(read(at)));
    };
    const PieceArrays seen{read(arrays.q),      read(arrays.k),       read(arrays.v),
                           written(arrays.out), written(arrays.sums), read(arrays.dout),
                           written(arrays.dq),  written(arrays.dk),   written(arrays.dv)};
    if (piece.element == core::DType::kBF16) return compute<core::Bf16>(piece, seen);
    compute<core::F16>(piece, seen);
  });
}

}  // namespace fm::device::cuda
