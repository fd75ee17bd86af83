#include "engine/plan/batch_triad.h"

#include <limits>

#include "core/check.h"

namespace fm::engine {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

// Before anything is divided or multiplied: -2^63 / -1 ends a process.
void check_given(const char* name, const std::optional<std::int64_t>& part) {
  if (!part) return;
  FM_USER_CHECK(*part > 0, name, ": ", *part, " has to be greater than 0; correct it");
  FM_USER_CHECK(*part <= kMost, name, ": ", *part, " has to be at most ", kMost, "; correct it");
}

std::int64_t multiply(std::int64_t micro, std::int64_t accumulation, int dp_size) {
  // fp64 is exact far beyond kMost.
  const double product =
      static_cast<double>(micro) * static_cast<double>(accumulation) * static_cast<double>(dp_size);
  FM_USER_CHECK(product <= static_cast<double>(kMost), "a step has to have at most ", kMost,
                " samples; lower one of the batch sizes (train_micro_batch_size_per_gpu=", micro,
                ", gradient_accumulation_steps=", accumulation, ", data-parallel ranks=", dp_size,
                ")");
  return micro * accumulation * dp_size;
}

// The table of what is given and what follows from it.
ResolvedBatch fill(const BatchTriad& given, int dp_size) {
  const auto& [train, micro, accumulation] = given;
  if (train && micro) {
    return {*train, *micro, accumulation.value_or(*train / *micro / dp_size)};
  }
  if (train && accumulation) return {*train, *train / dp_size / *accumulation, *accumulation};
  if (micro) {
    const std::int64_t micros = accumulation.value_or(1);
    return {multiply(*micro, micros, dp_size), *micro, micros};
  }
  FM_USER_CHECK(train,
                "Either train_batch_size or train_micro_batch_size_per_gpu needs to be "
                "provided; add one to the DeepSpeed configuration");
  return {*train, *train / dp_size, 1};
}

}  // namespace

ResolvedBatch resolve_batch(const BatchTriad& given, int dp_size) {
  check_given("Train batch size", given.train_batch);
  check_given("Micro batch size per gpu", given.micro_batch);
  check_given("Gradient accumulation steps", given.accumulation);
  const ResolvedBatch batch = fill(given, dp_size);
  const std::string values = core::concat("(train_batch_size=", batch.train_batch,
                                          ", train_micro_batch_size_per_gpu=", batch.micro_batch,
                                          ", gradient_accumulation_steps=", batch.accumulation,
                                          ", data-parallel ranks=", dp_size, ")");
  FM_USER_CHECK(batch.micro_batch > 0, "Micro batch size per gpu: ", batch.micro_batch,
                " has to be greater than 0; train_batch_size must be at least the number of "
                "data-parallel ranks ",
                values);
  FM_USER_CHECK(batch.accumulation > 0, "Gradient accumulation steps: ", batch.accumulation,
                " has to be greater than 0; train_batch_size must be at least micro-batch x ranks ",
                values);
  const std::int64_t product = multiply(batch.micro_batch, batch.accumulation, dp_size);
  FM_USER_CHECK(batch.train_batch == product,
                "Check batch related parameters. train_batch_size is not equal to "
                "micro_batch_per_gpu * gradient_acc_step * world_size ",
                batch.train_batch, " != ", batch.micro_batch, " * ", batch.accumulation, " * ",
                dp_size, "; use ", product, ", or leave one of the three out ", values);
  return batch;
}

void check_samples(const ResolvedBatch& batch, std::int64_t samples, bool allow_repeat) {
  FM_USER_CHECK(
      allow_repeat || samples >= batch.train_batch,
      "the training data must hold as many samples as a step takes; give more data, lower "
      "train_batch_size or --max_seq_len, or pass --allow_repeat to have samples more than "
      "once in every step (",
      samples, " samples, train_batch_size=", batch.train_batch, ")");
}

}  // namespace fm::engine
