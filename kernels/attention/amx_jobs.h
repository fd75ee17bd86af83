// Blocks, jobs and work space of attention's backward pass on AMX tiles.
#pragma once

#include <cmath>
#include <optional>

#include "kernels/attention/amx_strips.h"
#include "kernels/attention/paths.h"

namespace fm::kernels::amx::backward {

inline constexpr std::int64_t kBlockStrips = 8;  // of keys
inline constexpr std::int64_t kQueryStrips = 2;
inline constexpr std::int64_t kQueries = kQueryStrips * kStrip;
inline constexpr std::int64_t kKeyStrips = 2;  // of a job

// What the vector units make of a job, and what they make it of.
struct Squares {
  float* scores;      // per strip of queries, a corner per strip of keys
  float* dprobs;      // the same
  std::byte* probs;   // right factor: per strip of keys, a step per strip of queries
  std::byte* dright;  // the same of the gradients of scores, before the scale
  std::byte* dleft;   // left factor: per strip of queries, a step per strip of keys
};

// A block of queries.
struct Queries {
  std::byte* q_left;      // per strip of queries: left factor of scores
  std::byte* dout_left;   // the same of the gradients of probabilities
  std::byte* q_terms;     // per strip of the head, a step per strip of queries: of dk
  std::byte* dout_terms;  // the same of dv
  float* dq;              // per strip of queries, a corner per strip of the head
  float* logsumexp;       // [queries]
  float* dots;            // [queries]: dout times out
};

struct BackwardBuffers {
  HeadGroup group;
  std::int64_t dims;          // strips of a head
  std::int64_t block_strips;  // of keys
  float scale;                // of a score
  std::byte* k_right;         // per strip of keys: right factor of scores
  std::byte* v_right;         // the same of the gradients of probabilities
  std::byte* k_terms;         // per strip of the head, a step per strip of keys: of dq
  float* dk;                  // per strip of the head, a corner per strip of keys, before `scale`
  float* dv;                  // the same
  Queries queries[2];         // blocks take turns
  Squares squares[2];         // jobs take turns
  float* all_dots;            // [heads, T padded]
  std::int64_t padded;        // T
  std::int64_t scratch;       // elements

  BackwardBuffers(const HeadGroup& at, float* memory)
      : group(at),
        dims(strips_of(group.head_dim)),
        block_strips(std::min(kBlockStrips, strips_of(group.seq_len))),
        scale(score_scale_of(group)),
        padded(strips_of(group.seq_len) * kStrip) {
    Taker take(memory);
    for (std::byte** keys : {&k_right, &v_right, &k_terms}) *keys = take.steps(block_strips * dims);
    for (float** sums : {&dk, &dv}) *sums = take.corners(block_strips * dims);
    for (Queries& to : queries) {
      for (std::byte** parts : {&to.q_left, &to.dout_left, &to.q_terms, &to.dout_terms})
        *parts = take.steps(kQueryStrips * dims);
      to.dq = take.corners(kQueryStrips * dims);
      for (float** row : {&to.logsumexp, &to.dots}) *row = take.floats(kQueries);
    }
    constexpr std::int64_t kCorners = kQueryStrips * kKeyStrips;
    for (Squares& to : squares) {
      for (float** sums : {&to.scores, &to.dprobs}) *sums = take.corners(kCorners);
      for (std::byte** parts : {&to.probs, &to.dright, &to.dleft}) *parts = take.steps(kCorners);
    }
    all_dots = take.floats(group.heads * padded);
    scratch = take.count();
  }
};

// Tokens of one head.
struct TokenRange {
  std::int64_t head;
  std::int64_t first;
  std::int64_t count;
};

// Two strips of keys and the strips of queries that see some of them.
struct Job {
  TokenRange span;  // the block of queries
  const Queries* queries;
  const Squares* squares;
  std::int64_t strips;  // of queries
  std::int64_t key;     // the first strip of keys within the block
  std::int64_t keys;    // strips of keys
  std::int64_t ahead;   // strips from the first strip of keys to the first one of queries
  bool hides_keys;      // before the first that a query sees
  bool first_of_block;  // of queries
  bool last_of_block;

  // Where the job's keys begin in the row.
  std::int64_t first_key() const { return span.first - ahead * kStrip; }
  // The strips of keys up to a strip of queries.
  std::int64_t seen(std::int64_t strip) const {
    return std::clamp(ahead + strip + 1, std::int64_t{0}, keys);
  }
  // The first strip of queries that is not before a strip of keys.
  std::int64_t first(std::int64_t key_strip) const {
    return std::clamp(key_strip - ahead, std::int64_t{0}, strips);
  }
  std::int64_t corners() const {
    std::int64_t count = 0;
    for (std::int64_t strip = 0; strip < strips; ++strip) count += seen(strip);
    return count;
  }
};

// Every job of a block of keys: heads, blocks of queries, pairs of strips of keys; all that hold
// something that a query sees.
class Jobs {
 public:
  Jobs(const HeadGroup& group, const BackwardBuffers& work, const TokenRange& keys)
      : group_(group),
        work_(work),
        keys_(keys),
        end_(seeing_end(group, keys.first, keys.first + keys.count)) {
    enter_block(keys.first);
  }

  std::optional<Job> next() {
    if (head_ == group_.heads) return std::nullopt;
    const TokenRange span{head_, first_, std::min(kQueries, group_.seq_len - first_)};
    const std::int64_t strips = strips_of(span.count);
    const std::int64_t ahead = (first_ - keys_.first) / kStrip;
    const std::int64_t seen = std::min(strips_of(keys_.count), ahead + strips);
    const std::int64_t key = job_ * kKeyStrips;
    const std::int64_t last_first_key = first_key_of(group_, first_ + span.count - 1);
    const Job job{.span = span,
                  .queries = &work_.queries[block_ % 2],
                  .squares = &work_.squares[count_++ % 2],
                  .strips = strips,
                  .key = key,
                  .keys = std::min(kKeyStrips, seen - key),
                  .ahead = ahead - key,
                  .hides_keys = last_first_key > keys_.first + key * kStrip,
                  .first_of_block = job_ == first_job_,
                  .last_of_block = key + kKeyStrips >= seen};
    ++job_;
    if (job.last_of_block) leave_block();
    return job;
  }

 private:
  void enter_block(std::int64_t first) {
    first_ = first;
    const std::int64_t hidden = first_key_of(group_, first) - keys_.first;
    first_job_ = std::max(hidden, std::int64_t{0}) / (kKeyStrips * kStrip);
    job_ = first_job_;
  }
  void leave_block() {
    ++block_;
    const bool more = first_ + kQueries < end_;
    if (!more) ++head_;
    enter_block(more ? first_ + kQueries : keys_.first);
  }

  const HeadGroup& group_;
  const BackwardBuffers& work_;
  const TokenRange keys_;
  const std::int64_t end_;  // queries from here on see none of the keys
  std::int64_t head_ = 0;
  std::int64_t first_ = 0;
  std::int64_t first_job_ = 0;  // of the block of queries
  std::int64_t job_ = 0;        // the same
  std::int64_t block_ = 0;      // of all
  std::int64_t count_ = 0;      // of jobs
};

}  // namespace fm::kernels::amx::backward
