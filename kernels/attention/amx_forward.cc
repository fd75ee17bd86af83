// Forward on AMX tiles: a stream of jobs, each a strip of queries and a block of keys. While the
// vector units make the probabilities of a job, tiles multiply the scores of the next job and the
// values of the one before. Two strips of queries take turns.
#include <cmath>
#include <limits>
#include <optional>

#include "kernels/attention/amx_strips.h"
#include "kernels/attention/paths.h"
#include "kernels/float_math.h"
#include "kernels/rows.h"

namespace fm::kernels::amx {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// The largest score of no key, from which a hidden one, minus infinity, is infinitely far.
constexpr float kNoScore = std::numeric_limits<float>::lowest();
constexpr std::int64_t kKeyStrips = 4;
constexpr std::int64_t kQueries = 2 * kStrip;

// Two strips of queries.
struct Queries {
  std::byte* parts;  // per strip: the left factor of its scores
  float* sums;       // per strip, a corner per strip of the head: probabilities times values
  float* lanes;      // [queries, 16]: sums of probabilities
  float* shift;      // [queries]: the largest score so far
};

// What is made of a job.
struct Square {
  float* scores;     // a corner per strip of keys
  std::byte* probs;  // left factor, a step per strip of keys
};

struct ForwardBuffers {
  HeadGroup group;
  std::int64_t dims;     // strips of a head
  std::int64_t strips;   // of keys
  float scale;           // of a score, times log2(e): probabilities are powers of 2
  std::byte* k_parts;    // per strip of keys: the right factor of its scores
  std::byte* v_parts;    // per block of keys and strip of the head: the right factor of sums
  Queries queries[2];    // blocks take turns
  Square squares[2];     // jobs take turns
  std::int64_t scratch;  // elements

  ForwardBuffers(const HeadGroup& of, float* memory)
      : group(of),
        dims(strips_of(group.head_dim)),
        strips(strips_of(group.seq_len)),
        scale(score_scale_of(group, kLog2E)) {
    Taker take(memory);
    k_parts = take.steps(strips * dims);
    v_parts = take.steps(strips * dims);
    for (Queries& at : queries) {
      at = {take.steps(2 * dims), take.corners(2 * dims), take.floats(kQueries * kLanes),
            take.floats(kQueries)};
    }
    for (Square& at : squares) at = {take.corners(kKeyStrips), take.steps(kKeyStrips)};
    scratch = take.count();
  }
};

void pack_keys_and_values(const HeadGroup& group, const GroupForward& at,
                          const ForwardBuffers& work) {
  const Source<float> k{at.k, group.k_stride, true};
  const Source<float> v{at.v, group.k_stride, false};
  for (std::int64_t strip = 0; strip < work.strips; ++strip) {
    const std::int64_t key = strip * kStrip;
    pack_strip<Side::kRight>(k, {key, 0}, {group.seq_len - key, group.head_dim},
                             work.k_parts + strip * work.dims * kStepBytes);
  }
  for (std::int64_t strip = 0; strip < work.strips; strip += kKeyStrips) {
    const std::int64_t key = strip * kStrip;
    const std::int64_t steps = std::min(kKeyStrips, work.strips - strip);
    const std::int64_t keys = std::min(kKeyStrips * kStrip, group.seq_len - key);
    for (std::int64_t dim = 0; dim < work.dims; ++dim) {
      pack_strip<Side::kRight>(v, {dim * kStrip, key}, {group.head_dim - dim * kStrip, keys},
                               work.v_parts + (strip * work.dims + dim * steps) * kStepBytes);
    }
  }
}

// Queries of one head.
struct QueryRange {
  std::int64_t head;
  std::int64_t first;
  std::int64_t count;
};

struct Job {
  QueryRange span;  // the block of queries
  const Queries* queries;
  const Square* square;
  std::int64_t strip;      // of the block of queries
  std::int64_t key_strip;  // the first of the block of keys
  std::int64_t steps;      // strips of keys of the block
  std::int64_t seen;       // strips of keys up to the queries
  bool diagonal;           // the last of these holds the queries themselves
  bool hides_keys;         // before the first that a query sees
  bool first;              // of the block of queries
  bool last;
};

// Every job: heads, blocks of queries, blocks of keys from the first that a query of the block sees
// on, strips of queries.
class Jobs {
 public:
  Jobs(const HeadGroup& group, const ForwardBuffers& work) : group_(group), work_(work) {}

  std::optional<Job> next() {
    if (head_ == group_.heads) return std::nullopt;
    constexpr std::int64_t kKeys = kKeyStrips * kStrip;
    const QueryRange span{head_, first_, std::min(kQueries, group_.seq_len - first_)};
    const std::int64_t begin = first_key_of(group_, first_) / kKeys;
    const std::int64_t key_blocks = (first_ + span.count + kKeys - 1) / kKeys - begin;
    // One strip alone would meet the next block of keys before the last is summed: it gets company.
    const std::int64_t strips = key_blocks == 1 && span.count <= kStrip ? 1 : 2;
    const std::int64_t strip = job_ % strips;
    const std::int64_t key_strip = (begin + job_ / strips) * kKeyStrips;
    const std::int64_t steps = std::min(kKeyStrips, work_.strips - key_strip);
    const std::int64_t seen = first_ / kStrip + strip - key_strip + 1;
    const std::int64_t last_first_key = first_key_of(group_, first_ + span.count - 1);
    const Job job{.span = span,
                  .queries = &work_.queries[block_ % 2],
                  .square = &work_.squares[count_++ % 2],
                  .strip = strip,
                  .key_strip = key_strip,
                  .steps = steps,
                  .seen = std::min(seen, steps),
                  .diagonal = seen <= steps,
                  .hides_keys = last_first_key > key_strip * kStrip,
                  .first = job_ == 0,
                  .last = job_ + 1 == strips * key_blocks};
    ++job_;
    if (job.last) leave_block();
    return job;
  }

 private:
  void leave_block() {
    job_ = 0;
    ++block_;
    first_ += kQueries;
    if (first_ < group_.seq_len) return;
    first_ = 0;
    ++head_;
  }

  const HeadGroup& group_;
  const ForwardBuffers& work_;
  std::int64_t head_ = 0;
  std::int64_t first_ = 0;
  std::int64_t job_ = 0;    // of the block
  std::int64_t block_ = 0;  // of all
  std::int64_t count_ = 0;  // of jobs
};

void rescale(float* values, Vector factor) {
  for (std::int64_t i = 0; i < kStrip; i += kSide) store(load(values + i) * factor, values + i);
}

// Scores of keys before the first that a query sees become minus infinity.
void hide_keys(const ForwardBuffers& work, const Job& job, std::int64_t row) {
  const std::int64_t query = job.span.first + job.strip * kStrip + row;
  std::int64_t hidden = padded_first_key_of(work.group, query) - job.key_strip * kStrip;
  float* scores = job.square->scores + row * kStrip;
  for (std::int64_t i = 0; i < job.seen && hidden > 0; ++i, hidden -= kStrip) {
    float* strip = scores + i * kCornerFloats;
    _mm512_mask_storeu_ps(strip, first_lanes(hidden), splat(-kInfinity));
    _mm512_mask_storeu_ps(strip + kSide, first_lanes(hidden - kSide), splat(-kInfinity));
  }
}

// The scores of a query that it sees, and its largest so far; what was summed relative to an older
// one is rescaled.
void begin_row(const ForwardBuffers& work, const Job& job, std::int64_t row) {
  float* scores = job.square->scores + row * kStrip;
  const std::int64_t query = job.strip * kStrip + row;
  if (job.diagonal) {
    float* last = scores + (job.seen - 1) * kCornerFloats;
    const Vector unseen = splat(-kInfinity);
    _mm512_mask_storeu_ps(last, static_cast<__mmask16>(~first_lanes(row + 1)), unseen);
    _mm512_mask_storeu_ps(last + kSide, static_cast<__mmask16>(~first_lanes(row + 1 - kSide)),
                          unseen);
  }
  if (job.hides_keys) hide_keys(work, job, row);
  Vector largest = splat(-kInfinity);
  for (std::int64_t i = 0; i < job.seen; ++i) {
    largest = larger(load(scores + i * kCornerFloats), largest);
    largest = larger(load(scores + i * kCornerFloats + kSide), largest);
  }
  largest = largest_lane(largest);
  if (largest[0] <= job.queries->shift[query]) return;
  const Vector factor = power((splat(job.queries->shift[query]) - largest) * splat(work.scale));
  float* lanes = job.queries->lanes + query * kLanes;
  store(load(lanes) * factor, lanes);
  for (std::int64_t dim = 0; dim < work.dims; ++dim) {
    rescale(job.queries->sums + (job.strip * work.dims + dim) * kCornerFloats + row * kStrip,
            factor);
  }
  job.queries->shift[query] = largest[0];
}

// Scores of a query for a strip of keys become probabilities relative to the largest score.
void soften(const ForwardBuffers& work, const Job& job, std::int64_t row, std::int64_t strip) {
  const float* scores = job.square->scores + strip * kCornerFloats + row * kStrip;
  const std::int64_t query = job.strip * kStrip + row;
  const Vector shift = splat(job.queries->shift[query]);
  const Vector scale = splat(work.scale);
  const Vector first = power((load(scores) - shift) * scale);
  const Vector second = power((load(scores + kSide) - shift) * scale);
  float* lanes = job.queries->lanes + query * kLanes;
  store(load(lanes) + (first + second), lanes);
  store_cut_parts(first, second, job.square->probs + strip * kStepBytes + row * kRowBytes);
}

template <class Other>
void multiply_scores(const ForwardBuffers& work, const Job& job, Other& meanwhile) {
  for (std::int64_t i = 0; i < job.seen; ++i) {
    multiply_corner<Beta::kZero>(job.queries->parts + job.strip * work.dims * kStepBytes,
                                 work.k_parts + (job.key_strip + i) * work.dims * kStepBytes,
                                 work.dims, job.square->scores + i * kCornerFloats, meanwhile);
  }
}

template <class Other>
void multiply_values(const ForwardBuffers& work, const Job& job, Other& meanwhile) {
  for (std::int64_t dim = 0; dim < work.dims; ++dim) {
    multiply_corner<Beta::kOne>(
        job.square->probs,
        work.v_parts + (job.key_strip * work.dims + dim * job.steps) * kStepBytes, job.seen,
        job.queries->sums + (job.strip * work.dims + dim) * kCornerFloats, meanwhile);
  }
}

void load_queries(const HeadGroup& group, const GroupForward& at, const ForwardBuffers& work,
                  const Job& job) {
  const QueryRange& span = job.span;
  const Queries& queries = *job.queries;
  const Source<float> q{at.q + span.head * group.head_dim, group.q_stride, true};
  for (const std::int64_t strip : {0, 1}) {
    pack_strip<Side::kLeft>(q, {span.first + strip * kStrip, 0},
                            {span.count - strip * kStrip, group.head_dim},
                            queries.parts + strip * work.dims * kStepBytes);
  }
  std::fill_n(queries.sums, 2 * work.dims * kCornerFloats, 0.0F);
  std::fill_n(queries.lanes, kQueries * kLanes, 0.0F);
  std::fill_n(queries.shift, kQueries, kNoScore);
}

void store_queries(const HeadGroup& group, const GroupForward& at, const ForwardBuffers& work,
                   const Job& job) {
  const QueryRange& span = job.span;
  const Queries& queries = *job.queries;
  float* out = at.out + span.first * group.q_stride + span.head * group.head_dim;
  float* logsumexp = at.logsumexp + span.head * group.seq_len + span.first;
  for (std::int64_t r = 0; r < span.count; ++r) {
    const float* lanes = queries.lanes + r * kLanes;
    const float total = lane_sum<float>(kLanes, [=](auto j) { return lanes[j]; });
    const Vector factor = splat(1.0F / total);
    const float* sums = queries.sums + r / kStrip * work.dims * kCornerFloats + r % kStrip * kStrip;
    for (std::int64_t dim = 0; dim < group.head_dim; dim += kSide) {
      const Vector sum = load(sums + dim / kStrip * kCornerFloats + dim % kStrip);
      _mm512_mask_storeu_ps(out + r * group.q_stride + dim, first_lanes(group.head_dim - dim),
                            sum * factor);
    }
    logsumexp[r] = total;
  }
  const float unscaled = 1.0F / work.scale;
  for (std::int64_t r = 0; r < span.count; ++r) {
    logsumexp[r] = queries.shift[r] + log2_float(logsumexp[r]) * unscaled;
  }
}

// The portions of a job: for each row the largest score, then the strips of keys.
struct Portions {
  const ForwardBuffers& work;
  const Job& job;
  std::int64_t row = 0;
  std::int64_t strip = -1;

  void operator()() {
    if (strip < 0) {
      begin_row(work, job, row);
    } else {
      soften(work, job, row, strip);
    }
    if (++strip < job.seen) return;
    strip = -1;
    ++row;
  }
};

void attend(const HeadGroup& group, const GroupForward& at, const ForwardBuffers& work) {
  Jobs jobs(group, work);
  Idle nothing;
  std::optional<Job> before;
  std::optional<Job> job = jobs.next();
  load_queries(group, at, work, *job);
  multiply_scores(work, *job, nothing);
  while (job) {
    const std::optional<Job> next = jobs.next();
    const std::int64_t steps = (before ? before->seen : 0) + (next ? next->seen : 0);
    Meanwhile softening(kStrip * (job->seen + 1), steps * work.dims, Portions{work, *job});
    if (before) multiply_values(work, *before, softening);
    if (before && before->last) store_queries(group, at, work, *before);
    if (next && next->first) load_queries(group, at, work, *next);
    if (next) multiply_scores(work, *next, softening);
    softening.finish();
    before = job;
    job = next;
  }
  multiply_values(work, *before, nothing);
  store_queries(group, at, work, *before);
}

}  // namespace
}  // namespace fm::kernels::amx

namespace fm::kernels {

std::int64_t amx_attention_forward_scratch(const HeadGroup& group) {
  return amx::ForwardBuffers(group, nullptr).scratch;
}

void amx_attention_forward(const HeadGroup& group, const GroupForward& at, float* scratch) {
  const amx::ForwardBuffers work(group, scratch);
  const amx::Tiles tiles;
  amx::pack_keys_and_values(group, at, work);
  amx::attend(group, at, work);
}

}  // namespace fm::kernels
