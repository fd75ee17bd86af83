// The rows that a run trains on and is evaluated with.
#pragma once

#include <memory>

#include "data/sample_source.h"
#include "engine/batch_triad.h"
#include "engine/options.h"

namespace fm::engine {

// Throws UserError (10, 11).
std::unique_ptr<data::SampleSource> open_training_rows(const TrainOptions& options,
                                                       std::int64_t vocab, core::Ledger& ledger);

data::SourceOptions evaluation_rows(const TrainOptions& options, std::int64_t vocab,
                                    core::Ledger& ledger);

// Steps of an epoch as Hugging Face's Trainer counts them: its data ranks read whole micro-batches,
// and the last step of an epoch may have fewer. At least 1.
std::int64_t steps_of_epoch(std::int64_t samples, const ResolvedBatch& batch, int dp_size);

// The same of a run's own data, for `ranks` ranks. Throws UserError (10, 11).
std::int64_t count_steps_of_epoch(const TrainOptions& options, std::int64_t vocab, int ranks);

}  // namespace fm::engine
