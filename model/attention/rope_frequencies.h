// Rotation frequencies and the tables made of them.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "kernels/pointwise/elements.h"
#include "model/families/rope_config.h"

namespace fm::model {

// inv_freq [rotary elements / 2] in fp32 arithmetic, operation by operation as transformers
// computes it (src/transformers/modeling_rope_utils.py), for rows of `row` tokens. Only longrope
// asks how long they are.
std::vector<float> rope_frequencies(const RopeConfig& config, std::int64_t head_dim,
                                    std::int64_t row = 0);

// Nothing is computed before the first table: sizes of config.json may be far beyond memory.
//
// Invariant: a table handed out stays where it is and never changes.
// Thread:    any thread may call `get`.
// Lifetime:  tables live as long as the object.
class RopeTables {
 public:
  RopeTables(const RopeConfig& config, std::int64_t head_dim);
  // The elements of a head that turn, 0 for kNone. A table has a cosine and a sine for two of them
  // at each position.
  std::int64_t rotary() const;
  // A table for rows of `positions` tokens, of at least as many; made at the first call for a
  // longer row. kNone has none.
  kernels::RopeTable get(std::int64_t positions);

 private:
  struct Table {
    std::int64_t positions = 0;
    std::vector<float> cos;
    std::vector<float> sin;
  };
  struct Family {  // of rows with the same frequencies
    std::vector<float> inv_freq;
    std::vector<std::unique_ptr<Table>> tables;
  };

  RopeConfig config_;
  std::int64_t head_dim_;
  std::mutex mutex_;
  Family short_rows_, long_rows_;
};

}  // namespace fm::model
