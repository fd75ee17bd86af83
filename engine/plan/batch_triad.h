// The batch triad of DeepSpeed's JSON (runtime/config.py, _configure_train_batch_size).
#pragma once

#include "engine/options.h"

namespace fm::engine {

struct ResolvedBatch {
  std::int64_t train_batch = 0;   // samples of one step over all data ranks
  std::int64_t micro_batch = 0;   // rows of one micro-batch of one data rank
  std::int64_t accumulation = 0;  // micro-batches of one step of one data rank
};

// Fills what is missing and checks train_batch = micro_batch * accumulation * dp_size. Divisions
// round down, as DeepSpeed's do. Every part, and the samples of a step, are 1 to 2^31 - 1. Throws
// UserError (10).
ResolvedBatch resolve_batch(const BatchTriad& given, int dp_size);

// Throws UserError (10) when one step needs more samples than there are, unless they may repeat.
void check_samples(const ResolvedBatch& batch, std::int64_t samples, bool allow_repeat);

}  // namespace fm::engine
