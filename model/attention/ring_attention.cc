#include "model/attention/ring_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "comm/exchange.h"
#include "core/element.h"
#include "core/sequence_part.h"
#include "kernels/attention/partial_softmax.h"
#include "kernels/pointwise/elements.h"
#include "kernels/pointwise/moves.h"
#include "kernels/pointwise/sums.h"

namespace fm::model {
namespace {

template <class T>
constexpr bool kIsFp32 = std::is_same_v<T, float>;

// Sizes of the arrays of a rank.
struct Sizes {
  std::int64_t batch, tokens, chunk;  // tokens of a row on this rank: two chunks
  std::int64_t q_width, k_width;      // elements of a token
  int ranks;

  explicit Sizes(const AttentionShape& shape)
      : batch(shape.batch.batch),
        tokens(shape.batch.seq_len),
        chunk(tokens / 2),
        q_width(shape.heads * shape.head_dim),
        k_width(shape.kv_heads * shape.head_dim),
        ranks(shape.batch.split.ring) {}
  std::int64_t q() const { return batch * tokens * q_width; }
  std::int64_t k() const { return batch * tokens * k_width; }
  std::int64_t q_of_chunk() const { return chunk * q_width; }
  std::int64_t k_of_chunk() const { return chunk * k_width; }
};

// A chunk of queries of a batch row, and a chunk of keys that they attend to.
struct ChunkPair {
  std::int64_t row = 0;
  int query = 0;  // 0 or 1: each rank has two chunks
  int key = 0;
  bool own = false;  // queries and keys of the same tokens
};

struct Chunks {
  core::TokenRuns queries, keys;
};

// Whether a query of the chunk attends to a key of the other chunk, which must be an earlier one.
// The first query reaches back furthest.
bool sees(const AttentionShape& shape, const RowPeers& peers, const Chunks& chunks,
          const ChunkPair& pair) {
  const core::TokenRun& queries = chunks.queries[static_cast<std::size_t>(pair.query)];
  const core::TokenRun& keys = chunks.keys[static_cast<std::size_t>(pair.key)];
  if (keys.first >= queries.first) return false;
  const std::int64_t row = shape.batch.row();
  std::int64_t first = 0;
  if (peers.starts_BT != nullptr) first = peers.starts_BT[pair.row * row + queries.first];
  if (shape.window > 0) first = std::max(first, queries.first + 1 - shape.window);
  return first < keys.end();
}

// The pairs to compute with the keys of one rank; a query's own chunk comes first.
std::vector<ChunkPair> pairs_of(const AttentionShape& shape, const RowPeers& peers,
                                const Chunks& chunks) {
  std::vector<ChunkPair> pairs;
  for (std::int64_t row = 0; row < shape.batch.batch; ++row) {
    if (chunks.keys == chunks.queries) {
      for (const int i : {0, 1}) pairs.push_back({row, i, i, true});
    }
    for (const int query : {0, 1}) {
      for (const int key : {0, 1}) {
        const ChunkPair pair{row, query, key, false};
        if (sees(shape, peers, chunks, pair)) pairs.push_back(pair);
      }
    }
  }
  return pairs;
}

AttentionShape shape_of(const AttentionShape& shape, const Chunks& chunks, const ChunkPair& pair) {
  const core::TokenRun& queries = chunks.queries[static_cast<std::size_t>(pair.query)];
  const core::TokenRun& keys = chunks.keys[static_cast<std::size_t>(pair.key)];
  AttentionShape out = shape;
  out.batch = {.batch = 1, .seq_len = queries.count};
  out.first_sample = shape.first_sample + pair.row;
  out.runs = {.row = shape.batch.row(),
              .first_query = queries.first,
              .first_key = keys.first,
              .keys = pair.own ? 0 : keys.count};
  if (shape.starts_BT != nullptr) {
    out.starts_BT = shape.starts_BT + pair.row * out.runs.row + queries.first;
  }
  return out;
}

// Scratch that is enough for any pair.
AttentionScratch scratch_of_pairs(const AttentionShape& shape, int threads) {
  const int ring = shape.batch.split.ring;
  const core::TokenRuns runs = core::runs_of_group(shape.batch.row(), ring, 0);
  const Chunks chunks{runs, runs};
  const AttentionScratch own = kernels::attention_scratch<float>(
      shape_of(shape, chunks, {.query = 1, .key = 1, .own = true}), threads);
  const AttentionScratch other =
      kernels::attention_scratch<float>(shape_of(shape, chunks, {.query = 1, .key = 0}), threads);
  return {.forward = std::max(own.forward, other.forward),
          .backward = std::max(own.backward, other.backward)};
}

// The offset of a chunk of queries, or of keys, in the rank's arrays.
std::int64_t q_at(const Sizes& sizes, const ChunkPair& pair) {
  return (2 * pair.row + pair.query) * sizes.q_of_chunk();
}
std::int64_t k_at(const Sizes& sizes, const ChunkPair& pair) {
  return (2 * pair.row + pair.key) * sizes.k_of_chunk();
}

// Keys and values that rotate around the ring: k and v in one array, double-buffered.
template <class T>
class RotatingKv {
 public:
  RotatingKv(comm::Communicator& ring, std::int64_t elements, core::Arena& arena)
      : ring_(ring),
        elements_(elements),
        current_(arena.take<T>(elements)),
        incoming_(arena.take<T>(elements)) {}

  const comm::Communicator& ring() const { return ring_; }
  T* current() { return current_; }
  // Posts the message to the next rank and the one from the previous.
  void post() {
    const core::Elements count(elements_);
    const int ranks = ring_.size();
    turn_ =
        comm::exchange(ring_, {current_, count, core::kDTypeOf<T>}, (ring_.rank() + 1) % ranks,
                       {incoming_, count, core::kDTypeOf<T>}, (ring_.rank() + ranks - 1) % ranks);
  }
  void wait(const core::Work& work) {
    turn_.sent.wait(work);
    turn_.received.wait(work);
    std::swap(current_, incoming_);
  }
  static core::Bytes scratch(std::int64_t elements) {
    return core::Arena::aligned<T>(elements) * 2;
  }

 private:
  comm::Communicator& ring_;
  std::int64_t elements_;
  T *current_, *incoming_;
  comm::Exchange turn_;
};

// The array in fp32: itself, or a converted copy in `memory`.
template <class T>
const float* wide(const core::Work& work, std::int64_t count, const T* from, float* memory) {
  if constexpr (kIsFp32<T>) {
    return from;
  } else {
    kernels::cast(work, count, from, memory);
    return memory;
  }
}

// Memory for the fp32 copy of an array of T; null where T is fp32.
template <class T>
float* take_wide(core::Arena& arena, std::int64_t count) {
  if constexpr (kIsFp32<T>) return nullptr;
  return arena.take<float>(count);
}
template <class T>
core::Bytes wide_bytes(std::int64_t count) {
  return kIsFp32<T> ? core::Bytes(0) : core::Arena::aligned<float>(count);
}

template <class T>
void copy_both(const core::Work& work, std::int64_t count, const T* k, const T* v, T* to) {
  kernels::copy(work, count, k, to);
  kernels::copy(work, count, v, to + count);
}

// Calls run(chunks) once per rank of the ring, its own keys first; kv.current() holds the keys and
// values of that rank.
template <class T, class Run>
void for_each_ring_step(const core::Work& work, std::int64_t row, RotatingKv<T>& kv,
                        const Run& run) {
  const int ranks = kv.ring().size();
  const int rank = kv.ring().rank();
  const core::TokenRuns mine = core::runs_of_group(row, ranks, rank);
  for (int step = 0; step < ranks; ++step) {
    const int source = (rank + ranks - step) % ranks;
    const bool more = step + 1 < ranks;
    if (more) kv.post();
    run(Chunks{mine, core::runs_of_group(row, ranks, source)});
    if (more) kv.wait(work);
  }
}

}  // namespace

template <class T>
AttentionScratch ring_scratch(const AttentionShape& shape, int threads) {
  const Sizes sizes(shape);
  const AttentionScratch pairs = scratch_of_pairs(shape, threads);
  const core::Bytes rotating = RotatingKv<T>::scratch(2 * sizes.k());
  const core::Bytes q = core::Arena::aligned<float>(sizes.q_of_chunk());
  const core::Bytes k = core::Arena::aligned<float>(sizes.k_of_chunk());
  return {.forward = rotating + q + core::Arena::aligned<float>(sizes.chunk * shape.heads) +
                     wide_bytes<T>(sizes.q()) * 2 + wide_bytes<T>(2 * sizes.k()) + pairs.forward,
          .backward = rotating + RotatingKv<float>::scratch(2 * sizes.k()) + q + k * 2 +
                      wide_bytes<T>(sizes.q()) * 4 + wide_bytes<T>(2 * sizes.k()) + pairs.backward};
}

template <class T>
void ring_forward(const AttentionShape& shape, const AttentionForward<T>& arrays,
                  const RowPeers& peers, core::Work& work) {
  const core::Arena::Scope scope(work.arena);
  const Sizes sizes(shape);
  RotatingKv<T> kv(*peers.ranks.ring, 2 * sizes.k(), work.arena);
  copy_both(work, sizes.k(), arrays.k, arrays.v, kv.current());
  float* const q_memory = take_wide<T>(work.arena, sizes.q());
  float* const kv_memory = take_wide<T>(work.arena, 2 * sizes.k());
  float* const out_memory = take_wide<T>(work.arena, sizes.q());
  const kernels::PartialSoftmax now{work.arena.take<float>(sizes.q_of_chunk()),
                                    work.arena.take<float>(sizes.chunk * shape.heads)};
  const float* const q = wide(work, sizes.q(), arrays.q, q_memory);
  float* out = out_memory;
  if constexpr (kIsFp32<T>) out = arrays.out;
  for_each_ring_step(work, shape.batch.row(), kv, [&](const Chunks& chunks) {
    const float* const k = wide(work, 2 * sizes.k(), kv.current(), kv_memory);
    for (const ChunkPair& pair : pairs_of(shape, peers, chunks)) {
      const kernels::PartialSoftmax all{
          out + q_at(sizes, pair),
          arrays.logsumexp + (2 * pair.row + pair.query) * sizes.chunk * shape.heads};
      const kernels::PartialSoftmax& to = pair.own ? all : now;
      const float* const keys = k + k_at(sizes, pair);
      kernels::attention_forward<float>(
          work, shape_of(shape, chunks, pair),
          {q + q_at(sizes, pair), keys, keys + sizes.k(), to.out, to.logsumexp});
      if (!pair.own)
        kernels::merge_partial_softmax(
            work, {sizes.chunk, shape.heads, shape.head_dim, shape.scale}, now, all);
    }
  });
  if constexpr (!kIsFp32<T>) kernels::cast(work, sizes.q(), out, arrays.out);
}

template <class T>
void ring_backward(const AttentionShape& shape, const AttentionBackward<T>& arrays,
                   const RowPeers& peers, core::Work& work) {
  const core::Arena::Scope scope(work.arena);
  const Sizes sizes(shape);
  RotatingKv<T> kv(*peers.ranks.ring, 2 * sizes.k(), work.arena);
  RotatingKv<float> dkv(*peers.ranks.ring, 2 * sizes.k(), work.arena);
  copy_both(work, sizes.k(), arrays.k, arrays.v, kv.current());
  float* const kv_memory = take_wide<T>(work.arena, 2 * sizes.k());
  const auto wide_q = [&](const T* from) {
    return wide(work, sizes.q(), from, take_wide<T>(work.arena, sizes.q()));
  };
  const float* const q = wide_q(arrays.q);
  const float* const attended = wide_q(arrays.out);
  const float* const dout = wide_q(arrays.dout);
  float* dq = take_wide<T>(work.arena, sizes.q());
  if constexpr (kIsFp32<T>) dq = arrays.dq;
  float* const dq_now = work.arena.take<float>(sizes.q_of_chunk());
  float* const dk_now = work.arena.take<float>(sizes.k_of_chunk());
  float* const dv_now = work.arena.take<float>(sizes.k_of_chunk());
  for_each_ring_step(work, shape.batch.row(), kv, [&](const Chunks& chunks) {
    const float* const k = wide(work, 2 * sizes.k(), kv.current(), kv_memory);
    for (const ChunkPair& pair : pairs_of(shape, peers, chunks)) {
      const std::int64_t from = q_at(sizes, pair);
      const float* const keys = k + k_at(sizes, pair);
      float* const dk = dkv.current() + k_at(sizes, pair);
      kernels::attention_backward<float>(
          work, shape_of(shape, chunks, pair),
          {.q = q + from,
           .k = keys,
           .v = keys + sizes.k(),
           .out = attended + from,
           .logsumexp = arrays.logsumexp + (2 * pair.row + pair.query) * sizes.chunk * shape.heads,
           .dout = dout + from,
           .dq = pair.own ? dq + from : dq_now,
           .dk = pair.own ? dk : dk_now,
           .dv = pair.own ? dk + sizes.k() : dv_now});
      if (pair.own) continue;
      kernels::add(work, sizes.q_of_chunk(), dq_now, dq + from);
      kernels::add(work, sizes.k_of_chunk(), dk_now, dk);
      kernels::add(work, sizes.k_of_chunk(), dv_now, dk + sizes.k());
    }
    dkv.post();  // after the last step they are back at their own rank
    dkv.wait(work);
  });
  if constexpr (kIsFp32<T>) {
    kernels::copy(work, sizes.k(), dkv.current(), arrays.dk);
    kernels::copy(work, sizes.k(), dkv.current() + sizes.k(), arrays.dv);
  } else {
    kernels::cast(work, sizes.q(), dq, arrays.dq);
    kernels::cast(work, sizes.k(), dkv.current(), arrays.dk);
    kernels::cast(work, sizes.k(), dkv.current() + sizes.k(), arrays.dv);
  }
}

template AttentionScratch ring_scratch<float>(const AttentionShape&, int);
template AttentionScratch ring_scratch<core::Bf16>(const AttentionShape&, int);
template AttentionScratch ring_scratch<core::F16>(const AttentionShape&, int);
template void ring_forward(const AttentionShape&, const AttentionForward<float>&, const RowPeers&,
                           core::Work&);
template void ring_forward(const AttentionShape&, const AttentionForward<core::Bf16>&,
                           const RowPeers&, core::Work&);
template void ring_forward(const AttentionShape&, const AttentionForward<core::F16>&,
                           const RowPeers&, core::Work&);
template void ring_backward(const AttentionShape&, const AttentionBackward<float>&, const RowPeers&,
                            core::Work&);
template void ring_backward(const AttentionShape&, const AttentionBackward<core::Bf16>&,
                            const RowPeers&, core::Work&);
template void ring_backward(const AttentionShape&, const AttentionBackward<core::F16>&,
                            const RowPeers&, core::Work&);

}  // namespace fm::model
