#include "model/attention/context_attention.h"

#include <algorithm>

#include "core/check.h"
#include "core/element.h"
#include "model/attention/head_exchange.h"
#include "model/attention/ring_attention.h"

namespace fm::model {
namespace {

core::SequenceSplit split_of(const AttentionShape& shape) { return shape.batch.split; }

// That the ranks at hand are those that the rows are split for.
void check_peers(const AttentionShape& shape, const Peers& peers) {
  const auto ranks_of = [](const comm::Communicator* group) {
    return group == nullptr ? 1 : group->size();
  };
  const core::SequenceSplit split = split_of(shape);
  FM_CHECK(ranks_of(peers.ulysses) == split.ulysses && ranks_of(peers.ring) == split.ring,
           "rows are split for ", split.ulysses, " ranks that exchange heads, in a ring of ",
           split.ring, ", not for ", ranks_of(peers.ulysses), " in a ring of ",
           ranks_of(peers.ring));
}

// The tokens of all ranks that exchange heads; the ring is one of such groups.
core::BatchShape batch_of_group(core::BatchShape batch) {
  return {batch.batch, batch.seq_len * batch.split.ulysses, {.ring = batch.split.ring}};
}

AttentionShape heads_of(const AttentionShape& shape, std::int64_t first, std::int64_t heads,
                        std::int64_t kv_heads) {
  AttentionShape out = shape;
  out.batch = batch_of_group(shape.batch);
  out.heads = heads;
  out.kv_heads = kv_heads;
  out.first_head = shape.first_head + first;
  out.all_heads = shape.all_heads > 0 ? shape.all_heads : shape.heads;
  return out;
}

AttentionShape shape_on_rank(const AttentionShape& shape, const DealtHeads& dealt, int rank) {
  const auto at = static_cast<std::size_t>(rank);
  return heads_of(shape, dealt.q[at].front(), std::ssize(dealt.q[at]), std::ssize(dealt.kv[at]));
}

DealtHeads dealt_heads(const AttentionShape& shape) {
  return deal_heads(shape.heads, shape.kv_heads, split_of(shape).ulysses);
}

// The elements of q (or k) with all tokens of the group and `heads` heads.
std::int64_t elements_of(const AttentionShape& on_rank, std::int64_t heads) {
  return on_rank.batch.tokens() * heads * on_rank.head_dim;
}

template <class T>
AttentionScratch scratch_on_rank(const AttentionShape& shape, int threads) {
  return split_of(shape).ring > 1 ? ring_scratch<T>(shape, threads)
                                  : kernels::attention_scratch<T>(shape, threads);
}

template <class T>
void forward_on_rank(const AttentionShape& shape, const AttentionForward<T>& arrays,
                     const RowPeers& peers, core::Work& work) {
  if (split_of(shape).ring == 1) return kernels::attention_forward<T>(work, shape, arrays);
  ring_forward<T>(shape, arrays, peers, work);
}

template <class T>
void backward_on_rank(const AttentionShape& shape, const AttentionBackward<T>& arrays,
                      const RowPeers& peers, core::Work& work) {
  if (split_of(shape).ring == 1) return kernels::attention_backward<T>(work, shape, arrays);
  ring_backward<T>(shape, arrays, peers, work);
}

// The sizes of arrays like q, and like k, on the ranks that have the most heads.
struct MostElements {
  HeadExchange::Shape q;
  std::int64_t q_heads = 0, kv_heads = 0;
  AttentionShape on_rank;

  explicit MostElements(const AttentionShape& shape)
      : q{shape.batch.batch, shape.batch.seq_len, shape.head_dim, shape.heads} {
    const DealtHeads dealt = dealt_heads(shape);
    q_heads = most_heads(dealt.q);
    kv_heads = most_heads(dealt.kv);
    on_rank = heads_of(shape, 0, q_heads, kv_heads);
  }
};

}  // namespace

AttentionKept attention_kept(const AttentionShape& shape) {
  const std::int64_t tokens = shape.batch.tokens();
  AttentionKept kept{.q = tokens * shape.heads * shape.head_dim,
                     .k = tokens * shape.kv_heads * shape.head_dim,
                     .logsumexp = tokens * shape.heads};
  if (split_of(shape).ulysses == 1) return kept;
  const MostElements most(shape);
  kept.q = std::max(kept.q, elements_of(most.on_rank, most.q_heads));
  kept.k = std::max(kept.k, elements_of(most.on_rank, most.kv_heads));
  kept.logsumexp = most.on_rank.batch.tokens() * most.q_heads;
  return kept;
}

template <class T>
AttentionScratch context_scratch(const AttentionShape& shape, int threads) {
  if (split_of(shape).ulysses == 1) return scratch_on_rank<T>(shape, threads);
  const MostElements most(shape);
  const int ranks = split_of(shape).ulysses;
  AttentionScratch inner{};
  const DealtHeads dealt = dealt_heads(shape);
  for (int rank = 0; rank < ranks; ++rank) {
    const AttentionScratch each = scratch_on_rank<T>(shape_on_rank(shape, dealt, rank), threads);
    inner.forward = std::max(inner.forward, each.forward);
    inner.backward = std::max(inner.backward, each.backward);
  }
  const std::int64_t most_of_any = std::max(most.q_heads, most.kv_heads);
  const core::Bytes exchange = HeadExchange::scratch<T>(most.q, ranks, most_of_any);
  const core::Bytes q = core::Arena::aligned<T>(elements_of(most.on_rank, most.q_heads));
  const core::Bytes k = core::Arena::aligned<T>(elements_of(most.on_rank, most.kv_heads));
  return {.forward = q + std::max(inner.forward, exchange),
          .backward = q * 3 + k * 2 + std::max(inner.backward, exchange)};
}

template <class T>
AttentionSent attention_sent(const AttentionShape& shape) {
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(T));
  const core::SequenceSplit split = split_of(shape);
  const std::int64_t tokens = shape.batch.tokens() * shape.head_dim;  // of one head
  std::int64_t kv_width = 2 * tokens * shape.kv_heads;                // keys and values that rotate
  AttentionSent sent;
  if (split.ulysses > 1) {
    const MostElements most(shape);
    const std::int64_t part = tokens * (split.ulysses - 1);
    sent.forward = core::Bytes(2 * kBytes * part * (most.q_heads + most.kv_heads));
    sent.backward = core::Bytes(kBytes * part * (3 * most.q_heads + 2 * most.kv_heads));
    kv_width = 2 * tokens * split.ulysses * most.kv_heads;
  }
  if (split.ring > 1) {
    const core::Bytes round(kBytes * kv_width * (split.ring - 1));
    sent.forward += round;
    sent.backward += round + core::Bytes(std::int64_t{sizeof(float)} * kv_width * split.ring);
  }
  return sent;
}

template <class T>
void context_forward(const AttentionShape& shape, const ContextForward<T>& arrays,
                     const RowPeers& peers, core::Work& work) {
  check_peers(shape, peers.ranks);
  if (split_of(shape).ulysses == 1) {
    return forward_on_rank<T>(shape, {arrays.q, arrays.k, arrays.v, arrays.out, arrays.logsumexp},
                              peers, work);
  }
  const core::Arena::Scope scope(work.arena);
  const DealtHeads dealt = dealt_heads(shape);
  const HeadExchange exchange(*peers.ranks.ulysses, work);
  const AttentionShape mine = shape_on_rank(shape, dealt, peers.ranks.ulysses->rank());
  const HeadExchange::Shape q{shape.batch.batch, shape.batch.seq_len, shape.head_dim, shape.heads};
  HeadExchange::Shape k = q;
  k.heads = shape.kv_heads;
  exchange.to_heads<T>(q, dealt.q, arrays.q, arrays.q);
  exchange.to_heads<T>(k, dealt.kv, arrays.k, arrays.k);
  exchange.to_heads<T>(k, dealt.kv, arrays.v, arrays.v);
  T* const out = work.arena.take<T>(elements_of(mine, mine.heads));
  forward_on_rank<T>(mine, {arrays.q, arrays.k, arrays.v, out, arrays.logsumexp}, peers, work);
  exchange.to_tokens<T>(q, dealt.q, out, arrays.out);
}

template <class T>
void context_backward(const AttentionShape& shape, const AttentionBackward<T>& arrays,
                      const RowPeers& peers, core::Work& work) {
  check_peers(shape, peers.ranks);
  if (split_of(shape).ulysses == 1) return backward_on_rank<T>(shape, arrays, peers, work);
  const core::Arena::Scope scope(work.arena);
  const DealtHeads dealt = dealt_heads(shape);
  const HeadExchange exchange(*peers.ranks.ulysses, work);
  const AttentionShape mine = shape_on_rank(shape, dealt, peers.ranks.ulysses->rank());
  const HeadExchange::Shape q{shape.batch.batch, shape.batch.seq_len, shape.head_dim, shape.heads};
  HeadExchange::Shape k = q;
  k.heads = shape.kv_heads;
  const auto take = [&](std::int64_t heads) {
    return work.arena.template take<T>(elements_of(mine, heads));
  };
  AttentionBackward<T> on_rank = arrays;
  T* const out = take(mine.heads);
  T* const dout = take(mine.heads);
  exchange.to_heads<T>(q, dealt.q, arrays.out, out);
  exchange.to_heads<T>(q, dealt.q, arrays.dout, dout);
  on_rank.out = out;
  on_rank.dout = dout;
  on_rank.dq = take(mine.heads);
  on_rank.dk = take(mine.kv_heads);
  on_rank.dv = take(mine.kv_heads);
  backward_on_rank<T>(mine, on_rank, peers, work);
  exchange.to_tokens<T>(q, dealt.q, on_rank.dq, arrays.dq);
  exchange.to_tokens<T>(k, dealt.kv, on_rank.dk, arrays.dk);
  exchange.to_tokens<T>(k, dealt.kv, on_rank.dv, arrays.dv);
}

template AttentionScratch context_scratch<float>(const AttentionShape&, int);
template AttentionScratch context_scratch<core::Bf16>(const AttentionShape&, int);
template AttentionScratch context_scratch<core::F16>(const AttentionShape&, int);
template AttentionSent attention_sent<float>(const AttentionShape&);
template AttentionSent attention_sent<core::Bf16>(const AttentionShape&);
template AttentionSent attention_sent<core::F16>(const AttentionShape&);
template void context_forward(const AttentionShape&, const ContextForward<float>&, const RowPeers&,
                              core::Work&);
template void context_forward(const AttentionShape&, const ContextForward<core::Bf16>&,
                              const RowPeers&, core::Work&);
template void context_forward(const AttentionShape&, const ContextForward<core::F16>&,
                              const RowPeers&, core::Work&);
template void context_backward(const AttentionShape&, const AttentionBackward<float>&,
                               const RowPeers&, core::Work&);
template void context_backward(const AttentionShape&, const AttentionBackward<core::Bf16>&,
                               const RowPeers&, core::Work&);
template void context_backward(const AttentionShape&, const AttentionBackward<core::F16>&,
                               const RowPeers&, core::Work&);

}  // namespace fm::model
