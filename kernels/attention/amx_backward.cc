// Backward on AMX tiles: blocks of up to 256 keys stay packed while blocks of two strips of queries
// pass; both meet in jobs of two strips of keys. While tiles multiply the scores of the next job
// and the gradients of the one before, the vector units make the probabilities of a job and the
// gradients of its scores. Gradients of keys and values are summed transposed, [dim, keys], so that
// probabilities become a right factor as they lie.
#include <optional>

#include "kernels/attention/amx_jobs.h"
#include "kernels/attention/paths.h"
#include "kernels/rows.h"

namespace fm::kernels::amx::backward {
namespace {

// The sum over keys of dprob * prob, which is dout . out (FlashAttention-2, section 3.1).
void all_dots(const HeadGroup& group, const GroupBackward& at, const BackwardBuffers& work) {
  for (std::int64_t t = 0; t < group.seq_len; ++t) {
    for (std::int64_t head = 0; head < group.heads; ++head) {
      const float* out = at.out + t * group.q_stride + head * group.head_dim;
      const float* dout = at.dout + t * group.q_stride + head * group.head_dim;
      work.all_dots[head * work.padded + t] =
          lane_sum<float>(group.head_dim, [=](auto i) { return dout[i] * out[i]; });
    }
  }
}

// Every strip of `count` vectors with the terms of a head, from token `first` on.
template <Side kWanted>
void pack_vectors(const HeadGroup& group, Source<float> source, const TokenRange& span,
                  std::byte* to) {
  source.adjacent_terms = true;
  const std::int64_t dims = strips_of(group.head_dim);
  for (std::int64_t i = 0; i < span.count; i += kStrip) {
    pack_strip<kWanted>(source, {span.first + i, 0}, {span.count - i, group.head_dim},
                        to + i / kStrip * dims * kStepBytes);
  }
}

// Every strip of the head as vectors, with `count` tokens as terms; `steps` from strip to strip.
template <Side kWanted>
void pack_terms(const HeadGroup& group, Source<float> source, const TokenRange& span,
                std::int64_t steps, std::byte* to) {
  source.adjacent_terms = false;
  for (std::int64_t dim = 0; dim < group.head_dim; dim += kStrip) {
    pack_strip<kWanted>(source, {dim, span.first}, {group.head_dim - dim, span.count},
                        to + dim / kStrip * steps * kStepBytes);
  }
}

void load_keys(const HeadGroup& group, const GroupBackward& at, const BackwardBuffers& work,
               const TokenRange& keys) {
  pack_vectors<Side::kRight>(group, {at.k, group.k_stride, true}, keys, work.k_right);
  pack_vectors<Side::kRight>(group, {at.v, group.k_stride, true}, keys, work.v_right);
  pack_terms<Side::kRight>(group, {at.k, group.k_stride, false}, keys, work.block_strips,
                           work.k_terms);
  std::fill_n(work.dk, work.block_strips * work.dims * kCornerFloats, 0.0F);
  std::fill_n(work.dv, work.block_strips * work.dims * kCornerFloats, 0.0F);
}

// Sums [dim, keys] of a block of keys, and where they go.
struct KeySums {
  const float* sums;
  float factor;
  float* to;  // [T, dim]
};

void store_keys(const HeadGroup& group, const BackwardBuffers& work, const TokenRange& keys,
                const KeySums& at) {
  Rows rows;
  for (std::int64_t key = 0; key < keys.count; key += kSide) {
    const std::int64_t count = std::min(kSide, keys.count - key);
    for (std::int64_t dim = 0; dim < group.head_dim; dim += kSide) {
      const float* from = at.sums +
                          (dim / kStrip * work.block_strips + key / kStrip) * kCornerFloats +
                          dim % kStrip * kStrip + key % kStrip;
      for (std::int64_t i = 0; i < kSide; ++i) rows[i] = load(from + i * kStrip) * splat(at.factor);
      transpose(rows);
      for (std::int64_t i = 0; i < count; ++i) {
        _mm512_mask_storeu_ps(at.to + (keys.first + key + i) * group.k_stride + dim,
                              first_lanes(group.head_dim - dim), rows[i]);
      }
    }
  }
}

// run(place in Queries::dq, place in dq, lanes) for every 16 elements of the block.
template <class Run>
void every_vector(const HeadGroup& group, const GroupBackward& at, const BackwardBuffers& work,
                  const Job& job, const Run& run) {
  const TokenRange& span = job.span;
  float* dq = at.dq + span.first * group.q_stride + span.head * group.head_dim;
  for (std::int64_t r = 0; r < span.count; ++r) {
    for (std::int64_t dim = 0; dim < group.head_dim; dim += kSide) {
      run(job.queries->dq + (r / kStrip * work.dims + dim / kStrip) * kCornerFloats +
              r % kStrip * kStrip + dim % kStrip,
          dq + r * group.q_stride + dim, first_lanes(group.head_dim - dim));
    }
  }
}

// dq begins at zero, with the first block of keys that a query of the block sees, or with what
// earlier keys gave.
void load_queries(const HeadGroup& group, const GroupBackward& at, const BackwardBuffers& work,
                  const Job& job) {
  const TokenRange& span = job.span;
  const Queries& to = *job.queries;
  const Source<float> q{at.q + span.head * group.head_dim, group.q_stride, true};
  const Source<float> dout{at.dout + span.head * group.head_dim, group.q_stride, true};
  pack_vectors<Side::kLeft>(group, q, span, to.q_left);
  pack_vectors<Side::kLeft>(group, dout, span, to.dout_left);
  pack_terms<Side::kLeft>(group, q, span, kQueryStrips, to.q_terms);
  pack_terms<Side::kLeft>(group, dout, span, kQueryStrips, to.dout_terms);
  const float* logsumexp = at.logsumexp + span.head * group.seq_len + span.first;
  const float* dots = work.all_dots + span.head * work.padded + span.first;
  for (std::int64_t r = 0; r < kQueries; ++r) {
    to.logsumexp[r] = r < span.count ? logsumexp[r] : 0.0F;
    to.dots[r] = r < span.count ? dots[r] : 0.0F;
  }
  std::fill_n(to.dq, kQueryStrips * work.dims * kCornerFloats, 0.0F);
  const std::int64_t block = work.block_strips * kStrip;
  const std::int64_t keys = job.first_key() - job.key * kStrip;
  if (keys == first_key_of(group, span.first) / block * block) return;
  every_vector(group, at, work, job, [](float* sums, const float* from, __mmask16 lanes) {
    store(_mm512_maskz_loadu_ps(lanes, from), sums);
  });
}

// dq ends scaled: after the keys among which the queries are.
void store_queries(const HeadGroup& group, const GroupBackward& at, const BackwardBuffers& work,
                   const Job& job) {
  const bool last_keys = job.ahead + job.strips <= job.keys;
  const Vector factor = splat(last_keys ? work.scale : 1.0F);
  every_vector(group, at, work, job, [&](const float* sums, float* to, __mmask16 lanes) {
    _mm512_mask_storeu_ps(to, lanes, load(sums) * factor);
  });
}

[[gnu::always_inline]] inline __mmask16 lanes_between(std::int64_t first, std::int64_t end) {
  if (first <= 0) return first_lanes(end);
  return static_cast<__mmask16>(first_lanes(end) & ~first_lanes(first));
}

// Probabilities and gradients of scores of a query at `from` of a square; 0 for unseen keys.
struct ScoreGradient {
  Vector prob;
  Vector dscore;
};
[[gnu::always_inline]] inline ScoreGradient differentiate(const BackwardBuffers& work,
                                                          const Job& job, std::int64_t from,
                                                          std::int64_t query, __mmask16 seen) {
  const Vector factor = splat(work.scale * kLog2E);
  const Vector shift = splat(job.queries->logsumexp[query]);
  const Vector dprob = load(job.squares->dprobs + from) - splat(job.queries->dots[query]);
  const Vector score = load(job.squares->scores + from);
  const Vector prob = _mm512_maskz_mov_ps(seen, power((score - shift) * factor));
  return {prob, _mm512_maskz_mul_ps(seen, prob, dprob)};
}

// Of a strip of keys, how many come before the first that query `row` of the job sees.
std::int64_t hidden_keys(const BackwardBuffers& work, const Job& job, std::int64_t key,
                         std::int64_t row) {
  if (!job.hides_keys) return 0;
  return padded_first_key_of(work.group, job.span.first + row) - job.first_key() - key * kStrip;
}

// Queries `row` and `row` + 16 of a strip, and a strip of keys.
void differentiate_rows(const BackwardBuffers& work, const Job& job, std::int64_t strip,
                        std::int64_t key, std::int64_t row) {
  const Squares& at = *job.squares;
  const std::int64_t corner = strip * kKeyStrips + key;
  const std::int64_t query = strip * kStrip + row;
  const std::int64_t from = corner * kCornerFloats + row * kStrip;
  const std::int64_t seen = key == job.ahead + strip ? row + 1 : kStrip;
  const std::int64_t hidden = hidden_keys(work, job, key, query);
  const std::int64_t hidden_below = hidden_keys(work, job, key, query + kSide);
  const std::int64_t right = (key * kQueryStrips + strip) * kStepBytes + row * kRowBytes;
  const std::int64_t left = corner * kStepBytes + row * kRowBytes;
  ScoreGradient upper[2];
  ScoreGradient lower[2];
  for (const std::int64_t half : {0, 1}) {
    const std::int64_t column = half * kSide;
    upper[half] = differentiate(work, job, from + column, query,
                                lanes_between(hidden - column, seen - column));
    lower[half] = differentiate(work, job, from + kSide * kStrip + column, query + kSide,
                                lanes_between(hidden_below - column, seen + kSide - column));
    store_cut_parts(upper[half].prob, lower[half].prob, at.probs + right + half * kTileBytes);
    store_cut_parts(upper[half].dscore, lower[half].dscore, at.dright + right + half * kTileBytes);
  }
  store_cut_parts(upper[0].dscore, upper[1].dscore, at.dleft + left);
  store_cut_parts(lower[0].dscore, lower[1].dscore, at.dleft + left + kTileBytes);
}

template <class Other>
void multiply_scores(const BackwardBuffers& work, const Job& job, Other& meanwhile) {
  for (std::int64_t strip = 0; strip < job.strips; ++strip) {
    const std::int64_t left = strip * work.dims * kStepBytes;
    for (std::int64_t key = 0; key < job.seen(strip); ++key) {
      const std::int64_t right = (job.key + key) * work.dims * kStepBytes;
      const std::int64_t to = (strip * kKeyStrips + key) * kCornerFloats;
      multiply_corner<Beta::kZero>(job.queries->q_left + left, work.k_right + right, work.dims,
                                   job.squares->scores + to, meanwhile);
      multiply_corner<Beta::kZero>(job.queries->dout_left + left, work.v_right + right, work.dims,
                                   job.squares->dprobs + to, meanwhile);
    }
  }
}

template <class Other>
void multiply_gradients(const BackwardBuffers& work, const Job& job, Other& meanwhile) {
  const Squares& at = *job.squares;
  for (std::int64_t dim = 0; dim < work.dims; ++dim) {
    for (std::int64_t key = 0; key < job.keys; ++key) {
      const std::int64_t first = job.first(key);
      const std::int64_t left = (dim * kQueryStrips + first) * kStepBytes;
      const std::int64_t right = (key * kQueryStrips + first) * kStepBytes;
      const std::int64_t to = (dim * work.block_strips + job.key + key) * kCornerFloats;
      const std::int64_t steps = job.strips - first;
      multiply_corner<Beta::kOne>(job.queries->dout_terms + left, at.probs + right, steps,
                                  work.dv + to, meanwhile);
      multiply_corner<Beta::kOne>(job.queries->q_terms + left, at.dright + right, steps,
                                  work.dk + to, meanwhile);
    }
    for (std::int64_t strip = 0; strip < job.strips; ++strip) {
      multiply_corner<Beta::kOne>(
          at.dleft + strip * kKeyStrips * kStepBytes,
          work.k_terms + (dim * work.block_strips + job.key) * kStepBytes, job.seen(strip),
          job.queries->dq + (strip * work.dims + dim) * kCornerFloats, meanwhile);
    }
  }
}

// The portions of a job: a strip of queries, a strip of keys that it sees, one of 16 rows.
struct Portions {
  const BackwardBuffers& work;
  const Job& job;
  std::int64_t strip = 0;
  std::int64_t key = 0;
  std::int64_t row = 0;

  void operator()() {
    while (key == job.seen(strip)) {
      ++strip;
      key = 0;
    }
    differentiate_rows(work, job, strip, key, row);
    if (++row < kSide) return;
    row = 0;
    ++key;
  }
};

void meet(const HeadGroup& group, const GroupBackward& at, const BackwardBuffers& work,
          const TokenRange& keys) {
  Jobs jobs(group, work, keys);
  Idle nothing;
  std::optional<Job> before;
  std::optional<Job> job = jobs.next();
  load_queries(group, at, work, *job);
  multiply_scores(work, *job, nothing);
  while (job) {
    const std::optional<Job> next = jobs.next();
    const std::int64_t corners =
        (before ? 3 * before->corners() : 0) + (next ? 2 * next->corners() : 0);
    Meanwhile differentiating(kSide * job->corners(), corners * work.dims, Portions{work, *job});
    if (before) multiply_gradients(work, *before, differentiating);
    if (before && before->last_of_block) store_queries(group, at, work, *before);
    if (next && next->first_of_block) load_queries(group, at, work, *next);
    if (next) multiply_scores(work, *next, differentiating);
    differentiating.finish();
    before = job;
    job = next;
  }
  multiply_gradients(work, *before, nothing);
  store_queries(group, at, work, *before);
}

void attend(const HeadGroup& group, const GroupBackward& at, float* scratch) {
  const BackwardBuffers work(group, scratch);
  const Tiles tiles;
  all_dots(group, at, work);
  const std::int64_t block = work.block_strips * kStrip;
  for (std::int64_t key = 0; key < group.seq_len; key += block) {
    const TokenRange keys{0, key, std::min(block, group.seq_len - key)};
    load_keys(group, at, work, keys);
    meet(group, at, work, keys);
    store_keys(group, work, keys, {work.dk, work.scale, at.dk});
    store_keys(group, work, keys, {work.dv, 1.0F, at.dv});
  }
}

}  // namespace
}  // namespace fm::kernels::amx::backward

namespace fm::kernels {

std::int64_t amx_attention_backward_scratch(const HeadGroup& group) {
  return amx::backward::BackwardBuffers(group, nullptr).scratch;
}

void amx_attention_backward(const HeadGroup& group, const GroupBackward& at, float* scratch) {
  amx::backward::attend(group, at, scratch);
}

}  // namespace fm::kernels
