// The layouts of two data ranks that a feature of the canonical matrix is tried in.
#pragma once

#include <gtest/gtest.h>

#include "small_run.h"

namespace fm::engine {

// `alone`: what one rank does with the same options. Every ZeRO stage, with and without a pipeline,
// must do the same to the bit; stages 1 and 3 recompute, pipelines share no memory.
inline void expect_same_bits_of_two(TrainOptions options, const RunTrace& alone, int steps) {
  for (const int zero_stage : {0, 1, 2, 3}) {
    for (const int pipe_ranks : {1, 2}) {
      SCOPED_TRACE(testing::Message() << "ZeRO " << zero_stage << ", pipe ranks " << pipe_ranks);
      options.zero_stage = zero_stage;
      options.pipe_parallel_size = pipe_ranks;
      options.shared_memory = pipe_ranks == 1;
      options.recompute = zero_stage % 2 == 1;
      EXPECT_EQ(first_difference(alone, run_small(options, 2, steps)), "");
    }
  }
}

}  // namespace fm::engine
