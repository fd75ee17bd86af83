#include <cmath>

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

// One block of keys with its gradients, one block of queries with theirs, and the two together.
struct BackwardBuffers {
  HeadGroup group;
  std::int64_t dim, keys, queries;
  float scale;  // of a score
  ScoreCap cap;
  float* k_columns;  // [dim, keys]
  float* v_columns;  // [dim, keys]
  float* k_rows;     // [keys, dim], times `scale`
  float* dk;         // [keys, dim], before `scale`
  float* dv;         // [keys, dim]
  float* q_rows;     // [queries, dim]
  float* dout_rows;  // [queries, dim]
  float* dq;         // [queries, dim]
  float* probs;      // [queries, keys]
  float* dscores;    // [queries, keys], before `scale`
  float* logsumexp;  // [queries]
  float* dots;       // [queries]: dout times out of the block
  float* all_dots;   // [heads, T padded]

  BackwardBuffers(const HeadGroup& at, float* scratch)
      : group(at),
        dim(up_to_16(group.head_dim)),
        keys(std::min(kBackwardKeys, up_to_16(key_count_of(group)))),
        queries(std::min(kBackwardQueries, up_to_16(group.seq_len))),
        scale(score_scale_of(group)),
        cap(score_cap_of(group)) {
    const auto take = [&](std::int64_t elements) {
      float* taken = scratch;
      scratch += elements;
      return taken;
    };
    for (float** rows : {&k_columns, &v_columns, &k_rows, &dk, &dv}) *rows = take(keys * dim);
    for (float** rows : {&q_rows, &dout_rows, &dq}) *rows = take(queries * dim);
    for (float** square : {&probs, &dscores}) *square = take(queries * keys);
    for (float** row : {&logsumexp, &dots}) *row = take(queries);
    all_dots = take(group.heads * up_to_16(group.seq_len));
  }
};

// The sum over keys of dprob * prob, which is dout . out (FlashAttention-2, section 3.1).
void all_dots(const HeadGroup& group, const GroupBackward& at, const BackwardBuffers& work) {
  const std::int64_t padded = up_to_16(group.seq_len);
  const std::int64_t width = group.heads * group.head_dim;
  for (std::int64_t t = 0; t < group.seq_len; ++t) {
    ask_for_row(StridedRows<const float>{at.out, group.q_stride, group.seq_len, width},
                t + kRowsAhead);
    ask_for_row(StridedRows<const float>{at.dout, group.q_stride, group.seq_len, width},
                t + kRowsAhead);
    for (std::int64_t head = 0; head < group.heads; ++head) {
      const float* out = at.out + t * group.q_stride + head * group.head_dim;
      const float* dout = at.dout + t * group.q_stride + head * group.head_dim;
      work.all_dots[head * padded + t] =
          lane_sum<float>(group.head_dim, [=](auto i) { return dout[i] * out[i]; });
    }
  }
}

// A block of queries: where it begins, how many there are.
struct QueryBlock {
  std::int64_t head = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

void load_keys(const HeadGroup& group, const GroupBackward& at, const BackwardBuffers& work,
               std::int64_t first) {
  const std::int64_t count = std::min(work.keys, key_count_of(group) - first);
  const StridedRows<const float> k{at.k + first * group.k_stride, group.k_stride, count,
                                   group.head_dim};
  const StridedRows<const float> v{at.v + first * group.k_stride, group.k_stride, count,
                                   group.head_dim};
  pack_transposed(k, {work.k_columns, work.dim, work.keys});
  pack_transposed(v, {work.v_columns, work.dim, work.keys});
  pack(k, work.scale, {work.k_rows, work.keys, work.dim});
  std::fill_n(work.dk, work.keys * work.dim, 0.0F);
  std::fill_n(work.dv, work.keys * work.dim, 0.0F);
}

void store_keys(const HeadGroup& group, const GroupBackward& at, const BackwardBuffers& work,
                std::int64_t first) {
  const std::int64_t count = std::min(work.keys, key_count_of(group) - first);
  const std::int64_t to = first * group.k_stride;
  unpack({work.dk, work.keys, work.dim}, work.scale,
         {at.dk + to, group.k_stride, count, group.head_dim});
  unpack({work.dv, work.keys, work.dim}, 1.0F, {at.dv + to, group.k_stride, count, group.head_dim});
}

// Queries beyond the last are zero, and so is what they add to dk and dv.
void load_queries(const HeadGroup& group, const GroupBackward& at, const BackwardBuffers& work,
                  const QueryBlock& span) {
  const std::int64_t from = span.first * group.q_stride + span.head * group.head_dim;
  const auto rows = [&](const float* base) {
    return StridedRows<const float>{base + from, group.q_stride, span.count, group.head_dim};
  };
  pack(rows(at.q), 1.0F, {work.q_rows, work.queries, work.dim});
  pack(rows(at.dout), 1.0F, {work.dout_rows, work.queries, work.dim});
  const float* logsumexp = at.logsumexp + span.head * group.seq_len + span.first;
  const float* dots = work.all_dots + span.head * up_to_16(group.seq_len) + span.first;
  for (std::int64_t r = 0; r < work.queries; ++r) {
    work.logsumexp[r] = r < span.count ? logsumexp[r] : 0.0F;
    work.dots[r] = r < span.count ? dots[r] : 0.0F;
  }
}

// The keys of a block that a query sees.
struct Seen {
  std::int64_t first = 0;  // 0 or less: from the block's first on
  std::int64_t end = 0;
};

// Probabilities from scores, and the gradient of the scores from that of the probabilities.
void differentiate(const BackwardBuffers& work, std::int64_t row, std::int64_t width,
                   const Seen& seen) {
  float* probs = work.probs + row * work.keys;
  float* dscores = work.dscores + row * work.keys;
  hide_from(probs, seen.end, width);
  hide_before(probs, seen.first, width);
  const Vector factor = splat(work.scale * kLog2E);
  const Vector shift = splat(work.logsumexp[row]);
  const Vector dot = splat(work.dots[row]);
  for (std::int64_t i = 0; i < width; i += kVectorFloats) {
    const Vector prob = exp2((load(probs + i) - shift) * factor);
    store(prob, probs + i);
    store(prob * (load(dscores + i) - dot), dscores + i);
  }
}

// Scores become capped ones, and `slopes` the derivatives of these. Not inlined: GCC 12 makes no
// vectors of the loop where it is.
[[gnu::noinline]] void cap_scores(const ScoreCap& cap, std::int64_t width, float* scores,
                                  float* slopes) {
  const auto [inner, outer] = cap;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < width; ++i) {
    const float share = tanh_float(scores[i] * inner);
    scores[i] = outer * share;
    slopes[i] = 1.0F - share * share;
  }
}

[[gnu::noinline]] void multiply(std::int64_t width, const float* slopes, float* dscores) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < width; ++i) dscores[i] *= slopes[i];
}

// What eight and eight products of a block of queries and the block of keys give. The first query
// stands `ahead` keys behind the first key; `from`: the queries before it stand before these keys.
// Where keys are of an earlier run, all queries stand behind the block.
struct BlockPair {
  std::int64_t query = 0;  // of the group, at `from`
  std::int64_t from = 0;
  std::int64_t queries = 0;  // from there on, a multiple of kTileRows
  std::int64_t keys = 0;     // a multiple of kTileColumns
  std::int64_t ahead = 0;
  std::int64_t first_key = 0;
  std::int64_t head = 0;
  Target<float> dq;  // of the block's queries
  // The next block's rows, of no width when there is none.
  StridedRows<const float> next_q, next_dout, next_dq;
};

// They come from far while the products of this block keep the nearest cache. Inlined because GCC
// drops calls of functions that only prefetch.
[[gnu::always_inline]] inline void ask_for_next(const BlockPair& pair, std::int64_t row) {
  ask_for_row<false, kSecondCache>(pair.next_q, row);
  ask_for_row<false, kSecondCache>(pair.next_dout, row);
  ask_for_row<true, kSecondCache>(pair.next_dq, row);
}

void attend(const BackwardBuffers& work, const BlockPair& pair) {
  const std::int64_t row = pair.from * work.dim;
  const std::int64_t square = pair.from * work.keys;
  const GemmShape scores{pair.queries, pair.keys, work.dim};
  const Band columns{Band::Region::kSeenColumns, pair.ahead};
  FM_SIMD::tile_product(scores, {work.q_rows + row, work.dim}, {work.k_columns, work.keys},
                        {work.probs + square, work.keys, Beta::kZero}, columns);
  FM_SIMD::tile_product(scores, {work.dout_rows + row, work.dim}, {work.v_columns, work.keys},
                        {work.dscores + square, work.keys, Beta::kZero}, columns);
  const bool capped = work.cap.outer > 0.0F;
  float slopes[kBackwardKeys];
  for (std::int64_t r = 0; r < pair.queries; ++r) {
    const std::int64_t width =
        std::min(pair.keys, up_to_16(pair.ahead + r / kTileRows * kTileRows + kTileRows));
    ask_for_next(pair, pair.from + r);
    const std::int64_t query = pair.query + r;
    const std::int64_t first = padded_first_key_of(work.group, query) - pair.first_key;
    const Seen seen{first, seen_end(work.group, pair.first_key, pair.ahead + r)};
    const std::int64_t at = (pair.from + r) * work.keys;
    if (capped) cap_scores(work.cap, width, work.probs + at, slopes);
    if (work.group.dropout.dropped == 0) {
      differentiate(work, pair.from + r, width, seen);
    } else {
      const std::uint64_t number =
          probability_of(work.group, pair.head, query) +
          static_cast<std::uint64_t>(work.group.first_key + pair.first_key);
      drop(work.group.dropout, number, width, work.dscores + at);
      differentiate(work, pair.from + r, width, seen);
      drop(work.group.dropout, number, width, work.probs + at);
    }
    if (capped) multiply(width, slopes, work.dscores + at);
  }
  FM_SIMD::tile_product({pair.queries, work.dim, pair.keys}, {work.dscores + square, work.keys},
                        {work.k_rows, work.dim},
                        {pair.dq.data + pair.from * pair.dq.stride, pair.dq.stride, pair.dq.beta},
                        {Band::Region::kSeenDepth, pair.ahead});
  const GemmShape gathered{pair.keys, work.dim, pair.queries};
  const Band seeing{Band::Region::kSeeingDepth, pair.ahead};
  FM_SIMD::tile_product(gathered, {work.probs + square, 1, work.keys},
                        {work.dout_rows + row, work.dim}, {work.dv, work.dim, Beta::kOne}, seeing);
  FM_SIMD::tile_product(gathered, {work.dscores + square, 1, work.keys},
                        {work.q_rows + row, work.dim}, {work.dk, work.dim, Beta::kOne}, seeing);
}

void block_pair(const HeadGroup& group, const GroupBackward& at, const BackwardBuffers& work,
                const QueryBlock& span, std::int64_t first_key) {
  load_queries(group, at, work, span);
  const std::int64_t to = span.first * group.q_stride + span.head * group.head_dim;
  const StridedRows<float> dq{at.dq + to, group.q_stride, span.count, group.head_dim};
  // The first keys that the block's first query sees, which every other passes, too.
  const bool earlier = group.keys > 0;  // then dq begins at zero
  const bool begins =
      !earlier && first_key == first_key_of(group, span.first) / work.keys * work.keys;
  const Beta beta = begins ? Beta::kZero : Beta::kOne;
  const bool in_place = dq.width == work.dim && dq.count % kTileRows == 0;
  if (!in_place && beta == Beta::kOne) {
    pack({dq.data, dq.stride, dq.count, dq.width}, 1.0F, {work.dq, work.queries, work.dim});
  }
  const std::int64_t rows = (span.count + kTileRows - 1) / kTileRows * kTileRows;
  const std::int64_t unseeing = std::max(first_key - span.first, std::int64_t{0});
  const std::int64_t from = earlier ? 0 : unseeing;
  const std::int64_t ahead = earlier ? work.keys : span.first + from - first_key;
  const std::int64_t next = to + work.queries * group.q_stride;
  const std::int64_t left = std::max(group.seq_len - span.first - work.queries, std::int64_t{0});
  const auto next_rows = [&](const float* base) {
    return StridedRows<const float>{base + next, group.q_stride, left,
                                    left > 0 ? group.head_dim : 0};
  };
  attend(work, {.query = span.first + from,
                .from = from,
                .queries = rows - from,
                .keys = std::min(work.keys, up_to_16(ahead + rows - from)),
                .ahead = ahead,
                .first_key = first_key,
                .head = span.head,
                .dq = in_place ? Target<float>{dq.data, dq.stride, beta}
                               : Target<float>{work.dq, work.dim, beta},
                .next_q = next_rows(at.q),
                .next_dout = next_rows(at.dout),
                .next_dq = next_rows(at.dq)});
  if (!in_place) unpack({work.dq, work.queries, work.dim}, 1.0F, dq);
}

void clear_queries(const HeadGroup& group, float* dq) {
  for (std::int64_t t = 0; t < group.seq_len; ++t) {
    std::fill_n(dq + t * group.q_stride, group.heads * group.head_dim, 0.0F);
  }
}

}  // namespace

void group_attention_backward(const HeadGroup& group, const GroupBackward& at, float* scratch) {
  const BackwardBuffers work(group, scratch);
  all_dots(group, at, work);
  if (group.keys > 0) clear_queries(group, at.dq);
  for (std::int64_t key = 0; key < key_count_of(group); key += work.keys) {
    load_keys(group, at, work, key);
    const std::int64_t seeing = seeing_end(group, key, key + work.keys);
    for (std::int64_t head = 0; head < group.heads; ++head) {
      const std::int64_t start = group.keys > 0 ? 0 : key / work.queries * work.queries;
      for (std::int64_t first = start; first < seeing; first += work.queries) {
        const std::int64_t count = std::min(work.queries, group.seq_len - first);
        block_pair(group, at, work, {head, first, count}, key);
      }
    }
    store_keys(group, at, work, key);
  }
}

}  // namespace fm::kernels::FM_SIMD
