// The batch triad of DeepSpeed's JSON (runtime/config.py, _configure_train_batch_size).
#pragma once

#include <string>

#include "engine/options.h"

namespace fm::engine {

struct ResolvedBatch {
  std::int64_t train_batch = 0;   // samples of one step over all data ranks
  std::int64_t micro_batch = 0;   // rows of one micro-batch of one data rank
  std::int64_t accumulation = 0;  // micro-batches of one step of one data rank, the most of any

  // Micro-batches of a step over all data ranks. Where they are dealt unevenly, the first data
  // ranks have one more than the others.
  std::int64_t slots() const { return train_batch / micro_batch; }
  bool is_even(int dp_size) const { return slots() % dp_size == 0; }
  std::int64_t micros_of(int dp_rank, int dp_size) const {
    return slots() / dp_size + (dp_rank < slots() % dp_size ? 1 : 0);
  }
};

// Fills what is missing. Divisions round down, as DeepSpeed's do. Where that leaves a rest, and
// gradient_accumulation_steps is not given, whole micro-batches are dealt unevenly, at least one to
// every data rank; elsewhere train_batch = micro_batch * accumulation * dp_size holds. Every part,
// and the samples of a step, are 1 to 2^31 - 1. Throws UserError (10).
ResolvedBatch resolve_batch(const BatchTriad& given, int dp_size);

// "8 samples = 1 per micro-batch x 3, 3, 2 on 3 data ranks" or "... x 2 accumulation x 4 data
// ranks".
std::string dealt_text(const ResolvedBatch& batch, int dp_size);

// Throws UserError (10) when one step needs more samples than there are, unless they may repeat.
void check_samples(const ResolvedBatch& batch, std::int64_t samples, bool allow_repeat);

}  // namespace fm::engine
