#include "engine/step/evaluation.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace fm::engine {

Evaluation::Evaluation(std::unique_ptr<data::SampleSource> source, RankState& state,
                       StepRuntime& runtime, const TrainOptions& options)
    : state_(state),
      runtime_(runtime),
      source_(std::move(source)),
      stream_(*source_, stream_layout(state, options)),
      samples_(source_->samples_per_epoch()) {
  const std::int64_t most = options.eval_batches * state.plan.batch.train_batch;
  if (most > 0) samples_ = std::min(samples_, most);
}

double Evaluation::run() {
  double sum = 0.0;
  std::int64_t valid = 0;
  for (std::int64_t first = 0; first < samples_; first += state_.plan.batch.train_batch) {
    stream_.load_step(first, samples_);
    const StepResult result = runtime_.evaluate_step(stream_);
    sum += result.loss_sum;
    valid += result.valid;
  }
  FM_DATA_CHECK(valid > 0,
                "evaluation data must have a label that counts in the rows that are evaluated; "
                "evaluate more of them (--eval_batches), or longer ones (",
                samples_, " rows)");
  return sum / static_cast<double>(valid);
}

}  // namespace fm::engine
