// RoPE frequencies, and tables of their cosines and sines.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

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
// Lifetime:  tables live as long as the object.
class RopeTables {
 public:
  RopeTables(const RopeConfig& config, std::int64_t head_dim);
  // The number of elements of a head that are rotated, 0 for kNone. A table has a cosine and a sine
  // for each pair of them at each position.
  std::int64_t rotary() const;
  // A table of at least `positions` positions, for rows of that many tokens; computed at the first
  // call for a longer row. Not for kNone.
  kernels::RopeTable get(std::int64_t positions);

 private:
  struct Table {
    std::int64_t positions = 0;
    std::vector<float> cos;
    std::vector<float> sin;
  };
  struct FrequencyTables {  // of rows with the same frequencies
    std::vector<float> inv_freq;
    std::vector<std::unique_ptr<Table>> tables;
  };

  RopeConfig config_;
  std::int64_t head_dim_;
  std::mutex mutex_;
  FrequencyTables short_rows_, long_rows_;
};

}  // namespace fm::model
