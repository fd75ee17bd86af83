// Rotation frequencies and the tables made of them.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "kernels/pointwise/elements.h"
#include "model/llama_config.h"

namespace fm::model {

// inv_freq [head_dim / 2] in fp32 arithmetic, operation by operation as transformers computes it
// (src/transformers/modeling_rope_utils.py).
std::vector<float> rope_frequencies(const RopeConfig& config, std::int64_t head_dim);

// Invariant: a table handed out stays where it is and never changes.
// Thread:    any thread may call `get`.
// Lifetime:  tables live as long as the object.
class RopeTables {
 public:
  RopeTables(const RopeConfig& config, std::int64_t head_dim);
  // A table of at least `positions` rows; made at the first call for a longer sequence.
  kernels::RopeTable get(std::int64_t positions);

 private:
  struct Table {
    std::int64_t positions = 0;
    std::vector<float> cos;
    std::vector<float> sin;
  };

  std::vector<float> inv_freq_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Table>> tables_;
};

}  // namespace fm::model
