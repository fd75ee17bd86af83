#include <cmath>
#include <limits>

#include "kernels/attention/pack.h"
#include "kernels/attention/paths.h"
#include "kernels/attention/tile_product.h"
#include "kernels/dropout_words.h"
#include "kernels/float_math.h"
#include "kernels/rows.h"

namespace fm::kernels::FM_SIMD {

extern decltype(kernels::tile_product) tile_product;

namespace {

constexpr float kLog2E = 1.44269504088896341F;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int kLaneVectors = static_cast<int>(kLanes) / kVectorFloats;

// Keys and values of the row, packed once; queries, sums and the online softmax of one block.
struct ForwardBuffers {
  HeadGroup group;
  std::int64_t dim, keys, queries, key_blocks;
  float scale;  // of a score, times log2(e): probabilities are powers of 2
  ScoreCap cap;
  float* k_blocks;  // per block of keys [dim, keys]
  float* v_rows;    // [T padded, dim]
  float* q_rows;    // [queries, dim]
  float* sums;      // [queries, dim]: probabilities times values, not yet divided
  float* lanes;     // [queries, 16]: sums of probabilities
  float* shift;     // [queries]: the largest score so far
  float* scores;    // [queries, keys]

  ForwardBuffers(const HeadGroup& at, float* scratch)
      : group(at),
        dim(up_to_16(group.head_dim)),
        keys(std::min(kForwardKeys, up_to_16(key_count_of(group)))),
        queries(std::min(kForwardQueries, up_to_16(group.seq_len))),
        key_blocks((key_count_of(group) + keys - 1) / keys),
        scale(score_scale_of(group, kLog2E)),
        cap(score_cap_of(group)) {
    const auto take = [&](std::int64_t elements) {
      float* taken = scratch;
      scratch += elements;
      return taken;
    };
    k_blocks = take(key_blocks * keys * dim);
    v_rows = take(key_blocks * keys * dim);
    q_rows = take(queries * dim);
    sums = take(queries * dim);
    lanes = take(queries * kLanes);
    scores = take(queries * keys);
    shift = take(queries);
  }
};

void pack_keys_and_values(const HeadGroup& group, const GroupForward& at,
                          const ForwardBuffers& work) {
  for (std::int64_t block = 0; block < work.key_blocks; ++block) {
    const std::int64_t first = block * work.keys;
    const std::int64_t count = std::min(work.keys, key_count_of(group) - first);
    const std::int64_t from = first * group.k_stride;
    pack_transposed({at.k + from, group.k_stride, count, group.head_dim},
                    {work.k_blocks + first * work.dim, work.dim, work.keys});
    pack({at.v + from, group.k_stride, count, group.head_dim}, 1.0F,
         {work.v_rows + first * work.dim, work.keys, work.dim});
  }
}

// Not inlined: GCC 12 makes no vectors of the loop where it is.
[[gnu::noinline]] void cap_scores(const ScoreCap& cap, std::int64_t width, float* scores) {
  const auto [inner, outer] = cap;
  for (std::int64_t i = 0; i < width; ++i) scores[i] = outer * tanh_float(scores[i] * inner);
}

Vector row_max(const float* row, std::int64_t width) {
  Vector largest = load(row);
  for (std::int64_t i = kVectorFloats; i < width; i += kVectorFloats) {
    largest = larger(load(row + i), largest);
  }
  return largest_lane(largest);
}

void rescale(float* values, std::int64_t count, Vector factor) {
  for (std::int64_t i = 0; i < count; i += kVectorFloats)
    store(load(values + i) * factor, values + i);
}

// What is summed of a query relative to its largest score so far, `largest` being the largest of
// this block: that of all from here on.
void raise_shift(const ForwardBuffers& work, std::int64_t row, Vector largest) {
  const float before = work.shift[row];
  if (!(largest[0] > before)) return;
  work.shift[row] = largest[0];
  if (before == -kInfinity) return;  // nothing is summed yet
  const Vector factor = exp2((splat(before) - largest) * splat(work.scale));
  rescale(work.lanes + row * kLanes, kLanes, factor);
  rescale(work.sums + row * work.dim, work.dim, factor);
}

// Scores of a query become probabilities relative to its largest score so far. There may be none
// yet: all are hidden, and become 0.
void soften(const ForwardBuffers& work, std::int64_t row, std::int64_t width) {
  float* scores = work.scores + row * work.keys;
  float* lanes = work.lanes + row * kLanes;
  const Vector scale = splat(work.scale);
  const Vector shift = splat(work.shift[row] == -kInfinity ? 0.0F : work.shift[row]);
  Vector sums[kLaneVectors];
  for (int v = 0; v < kLaneVectors; ++v) sums[v] = load(lanes + v * kVectorFloats);
  for (std::int64_t i = 0; i < width; i += kLanes) {
    for (int v = 0; v < kLaneVectors; ++v) {
      float* at = scores + i + v * kVectorFloats;
      const Vector prob = exp2((load(at) - shift) * scale);
      store(prob, at);
      sums[v] += prob;
    }
  }
  for (int v = 0; v < kLaneVectors; ++v) store(sums[v], lanes + v * kVectorFloats);
}

// Where queries stand that pass a block of keys: they begin with query `query` of the group, which
// is `ahead` keys behind `first_key`; beyond the block where its keys are of an earlier run.
struct QueryPosition {
  std::int64_t query = 0;
  std::int64_t ahead = 0;
  std::int64_t first_key = 0;
};

// The same of kTileRows queries, which begin with `row` of the block. Each step of all of them, so
// that none waits for a query's own chain.
void soften_tile(const ForwardBuffers& work, std::int64_t row, std::int64_t width,
                 const QueryPosition& at) {
  Vector largest[kTileRows];
  for (std::int64_t r = 0; r < kTileRows; ++r) {
    float* scores = work.scores + (row + r) * work.keys;
    if (work.cap.outer > 0.0F) cap_scores(work.cap, width, scores);
    hide_from(scores, seen_end(work.group, at.first_key, at.ahead + r), width);
    hide_before(scores, padded_first_key_of(work.group, at.query + r) - at.first_key, width);
    largest[r] = row_max(scores, width);
  }
  for (std::int64_t r = 0; r < kTileRows; ++r) raise_shift(work, row + r, largest[r]);
  for (std::int64_t r = 0; r < kTileRows; ++r) soften(work, row + r, width);
}

// A block of queries of a head: where it begins, how many there are, up to a multiple of kTileRows.
struct QueryBlock {
  std::int64_t head = 0;
  std::int64_t first = 0;
  std::int64_t rows = 0;
};

// Against the block of keys that begins at `first_key`.
void attend(const ForwardBuffers& work, const QueryBlock& span, std::int64_t first_key) {
  const std::int64_t first_query = span.first;
  const bool earlier = work.group.keys > 0;
  const std::int64_t unseeing = std::max(first_key - first_query, std::int64_t{0});
  const std::int64_t from = earlier ? 0 : unseeing;
  const std::int64_t ahead = earlier ? work.keys : first_query + from - first_key;
  const std::int64_t count = span.rows - from;
  const std::int64_t keys = std::min(work.keys, up_to_16(ahead + count));
  float* scores = work.scores + from * work.keys;
  FM_SIMD::tile_product({count, keys, work.dim}, {work.q_rows + from * work.dim, work.dim},
                        {work.k_blocks + first_key * work.dim, work.keys},
                        {scores, work.keys, Beta::kZero}, {Band::Region::kSeenColumns, ahead});
  for (std::int64_t r = 0; r < count; r += kTileRows) {
    const std::int64_t width = std::min(keys, up_to_16(ahead + r + kTileRows));
    soften_tile(work, from + r, width, {first_query + from + r, ahead + r, first_key});
    if (work.group.dropout.dropped == 0) continue;
    for (std::int64_t row = r; row < r + kTileRows; ++row) {
      const std::uint64_t number = probability_of(work.group, span.head, first_query + from + row);
      const std::int64_t key = work.group.first_key + first_key;
      drop(work.group.dropout, number + static_cast<std::uint64_t>(key), width,
           scores + row * work.keys);
    }
  }
  FM_SIMD::tile_product(
      {count, work.dim, keys}, {scores, work.keys}, {work.v_rows + first_key * work.dim, work.dim},
      {work.sums + from * work.dim, work.dim, Beta::kOne}, {Band::Region::kSeenDepth, ahead});
}

void finish(const HeadGroup& group, const ForwardBuffers& work, std::int64_t count, float* out,
            float* logsumexp) {
  for (std::int64_t r = 0; r < count; ++r) {
    const float* lanes = work.lanes + r * kLanes;
    const float total = lane_sum<float>(kLanes, [=](auto j) { return lanes[j]; });
    unpack({work.sums + r * work.dim, 1, work.dim}, total > 0.0F ? 1.0F / total : 0.0F,
           {out + r * group.q_stride, group.q_stride, 1, group.head_dim});
    logsumexp[r] = total;
  }
  const float unscaled = 1.0F / work.scale;
  for (std::int64_t r = 0; r < count; ++r) {
    logsumexp[r] = work.shift[r] + log2_float(logsumexp[r]) * unscaled;
  }
}

}  // namespace

void group_attention_forward(const HeadGroup& group, const GroupForward& at, float* scratch) {
  const ForwardBuffers work(group, scratch);
  pack_keys_and_values(group, at, work);
  for (std::int64_t head = 0; head < group.heads; ++head) {
    for (std::int64_t first = 0; first < group.seq_len; first += work.queries) {
      const std::int64_t count = std::min(work.queries, group.seq_len - first);
      const std::int64_t rows = (count + kTileRows - 1) / kTileRows * kTileRows;
      const std::int64_t from = first * group.q_stride + head * group.head_dim;
      pack({at.q + from, group.q_stride, count, group.head_dim}, 1.0F,
           {work.q_rows, work.queries, work.dim});
      std::fill_n(work.sums, work.queries * work.dim, 0.0F);
      std::fill_n(work.lanes, work.queries * kLanes, 0.0F);
      std::fill_n(work.shift, work.queries, -kInfinity);
      const std::int64_t first_key = first_key_of(group, first) / work.keys * work.keys;
      const std::int64_t end = group.keys > 0 ? group.keys : first + count;
      for (std::int64_t key = first_key; key < end; key += work.keys) {
        attend(work, {head, first, rows}, key);
      }
      finish(group, work, count, at.out + from, at.logsumexp + head * group.seq_len + first);
    }
  }
}

}  // namespace fm::kernels::FM_SIMD
