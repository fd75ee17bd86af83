#include "engine/batch_triad.h"

#include "core/check.h"

namespace fm::engine {
namespace {

// The table of what is given and what follows from it.
ResolvedBatch fill(const BatchTriad& given, std::int64_t dp_size) {
  const auto& [train, micro, accumulation] = given;
  if (train && micro) {
    // A micro-batch of 0 is refused below; it must not divide here.
    const std::int64_t rows = *micro == 0 ? 1 : *micro;
    return {*train, *micro, accumulation.value_or(*train / rows / dp_size)};
  }
  if (train && accumulation) {
    const std::int64_t micros = *accumulation == 0 ? 1 : *accumulation;
    return {*train, *train / dp_size / micros, *accumulation};
  }
  if (micro) {
    const std::int64_t micros = accumulation.value_or(1);
    return {*micro * micros * dp_size, *micro, micros};
  }
  FM_USER_CHECK(train,
                "Either train_batch_size or train_micro_batch_size_per_gpu needs to be "
                "provided; add one to the DeepSpeed configuration");
  return {*train, *train / dp_size, 1};
}

}  // namespace

ResolvedBatch resolve_batch(const BatchTriad& given, int dp_size) {
  const ResolvedBatch batch = fill(given, dp_size);
  const std::string values = core::concat("(train_batch_size=", batch.train_batch,
                                          ", train_micro_batch_size_per_gpu=", batch.micro_batch,
                                          ", gradient_accumulation_steps=", batch.accumulation,
                                          ", data-parallel ranks=", dp_size, ")");
  FM_USER_CHECK(batch.train_batch > 0, "Train batch size: ", batch.train_batch,
                " has to be greater than 0; correct it ", values);
  FM_USER_CHECK(batch.micro_batch > 0, "Micro batch size per gpu: ", batch.micro_batch,
                " has to be greater than 0; train_batch_size must be at least the number of "
                "data-parallel ranks ",
                values);
  FM_USER_CHECK(batch.accumulation > 0, "Gradient accumulation steps: ", batch.accumulation,
                " has to be greater than 0; train_batch_size must be at least micro-batch x ranks ",
                values);
  const std::int64_t product = batch.micro_batch * batch.accumulation * dp_size;
  FM_USER_CHECK(batch.train_batch == product,
                "Check batch related parameters. train_batch_size is not equal to "
                "micro_batch_per_gpu * gradient_acc_step * world_size ",
                batch.train_batch, " != ", batch.micro_batch, " * ", batch.accumulation, " * ",
                dp_size, "; use ", product, ", or leave one of the three out ", values);
  return batch;
}

}  // namespace fm::engine
