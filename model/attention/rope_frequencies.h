// RoPE frequencies, and tables of their cosines and sines.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "core/buffer.h"
#include "core/work.h"
#include "kernels/pointwise/rope.h"
#include "model/families/rope_config.h"

namespace fm::model {

// inv_freq [rotary elements / 2] in fp32 arithmetic, operation by operation as transformers
// computes it (src/transformers/modeling_rope_utils.py), for rows of `row` tokens, on which only
// longrope depends.
std::vector<float> rope_frequencies(const RopeConfig& config, std::int64_t head_dim,
                                    std::int64_t row = 0);

// Computes nothing before the first table, because the sizes of config.json may exceed the memory.
//
// Invariant: a table that get() has returned never moves or changes.
// Thread:    any thread may call `get`.
// Lifetime:  tables live as long as the object, those of a device as long as the queue.
class RopeTables {
 public:
  RopeTables(const RopeConfig& config, std::int64_t head_dim);
  // The number of elements of a head that are rotated, 0 for kNone. A table has a cosine and a sine
  // for each pair of them at each position.
  std::int64_t rotary() const;
  // A table of at least `positions` positions where the work is, for rows of that many tokens;
  // computed at the first call for a longer row. Not for kNone.
  kernels::RopeTable get(const core::Work& work, std::int64_t positions);
  // Whether a position says all: neither the document's length counts, nor a factor of queries.
  bool is_by_position() const {
    return config_.type != RopeConfig::Type::kLongrope && config_.query_beta == 0.0;
  }
  // Calls scale(first, count, factor) for runs of `count` positions whose queries are multiplied by
  // a factor besides 1, among those from `position` on; `first` counts from there.
  template <class Scale>
  void for_every_scale(std::int64_t position, std::int64_t positions, const Scale& scale) const {
    if (config_.query_beta == 0.0) return;
    const std::int64_t period = config_.original_max_position_embeddings;
    for (std::int64_t at = 0; at < positions;) {
      const std::int64_t periods = (position + at) / period;
      const std::int64_t count = std::min((periods + 1) * period - position, positions) - at;
      if (periods > 0) scale(at, count, query_factor(periods));
      at += count;
    }
  }

 private:
  struct Table {
    std::int64_t positions = 0;
    core::Buffer cos, sin;
  };
  struct FrequencyTables {  // of rows with the same frequencies
    std::vector<float> inv_freq;
    core::Buffer inv_freq_of_work;  // where a device has the tables
    std::vector<std::unique_ptr<Table>> tables;
  };
  struct Tables {  // in one memory
    core::Ledger ledger;
    FrequencyTables short_rows, long_rows;
  };

  float query_factor(std::int64_t periods) const;
  Tables& tables_of(const core::Work& work);
  std::vector<float> frequencies(bool is_long) const;
  std::unique_ptr<Table> make_table(const core::Work& work, core::RankMemory memory,
                                    FrequencyTables& of, std::int64_t positions) const;

  RopeConfig config_;
  std::int64_t head_dim_;
  std::mutex mutex_;
  Tables here_;
  std::shared_ptr<const void> owner_ = std::make_shared<char>();  // of tables on queues
};

}  // namespace fm::model
