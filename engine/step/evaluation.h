// The loss on held-out data, by the forward-only program.
#pragma once

#include <memory>
#include <string>

#include "engine/step/step_runtime.h"

namespace fm::engine {

// Invariant: every run sees the same samples, in any layout of ranks.
// Thread:    the rank's thread; collective.
// Lifetime:  state and runtime outlive it.
class Evaluation {
 public:
  Evaluation(std::unique_ptr<data::SampleSource> source, RankState& state, StepRuntime& runtime,
             const TrainOptions& options);

  double run();  // mean token loss, nats
  std::int64_t rows() const { return samples_; }
  std::string fingerprint() const { return source_->fingerprint(); }

 private:
  RankState& state_;
  StepRuntime& runtime_;
  std::unique_ptr<data::SampleSource> source_;
  data::BatchStream stream_;
  std::int64_t samples_;
};

}  // namespace fm::engine
