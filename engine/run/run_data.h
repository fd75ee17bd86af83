// The rows that a run trains on and is evaluated with.
#pragma once

#include <functional>
#include <memory>

#include "engine/options.h"
#include "engine/plan/batch_triad.h"
#include "text/data/sample_source.h"

namespace fm::engine {

// For training, and for evaluation where the options ask for it (else null). Throws UserError (10,
// 11), MachineError (26; 75 when `stop` says that a signal asks to end).
// Collective over `host`, the ranks that share its disks.
data::SplitSource open_rows(const TrainOptions& options, std::int64_t vocab, core::Ledger& ledger,
                            comm::Communicator& host, std::function<bool()> stop);

// Steps of an epoch as Hugging Face's Trainer counts them: the last step of an epoch may have fewer
// samples. At least 1.
std::int64_t steps_of_epoch(std::int64_t samples, const ResolvedBatch& batch);

// The same of a run's own data, for `ranks` ranks. Throws as open_rows does.
std::int64_t count_steps_of_epoch(const TrainOptions& options, std::int64_t vocab, int ranks,
                                  comm::Communicator& host, std::function<bool()> stop);

// How a run counts its passes over the data.
struct Epochs {
  std::int64_t samples = 0;      // of one pass
  std::int64_t train_batch = 0;  // samples of a step
  std::int64_t steps = 0;        // of the Trainer's epoch

  double passed(std::int64_t consumed) const {
    return static_cast<double>(consumed) / static_cast<double>(samples);
  }
  std::int64_t ended(std::int64_t consumed) const { return consumed / samples; }
  // "1 epoch = 462 steps, this run 0.32 epochs"
  std::string words(std::int64_t train_steps) const;
  // Of a run of `epochs` that goes on from a step: why it ends with others, because its steps had
  // another batch before; else "".
  std::string other_end(double epochs, std::int64_t step, std::int64_t consumed,
                        std::int64_t train_steps) const;
};

}  // namespace fm::engine
