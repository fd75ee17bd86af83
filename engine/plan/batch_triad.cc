#include "engine/plan/batch_triad.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "core/check.h"
#include "core/text.h"
#include "core/types.h"

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

// Micro-batches of which a step has a whole number, at least one for every data rank; the smallest
// first.
std::vector<std::int64_t> sizes_that_deal(std::int64_t train_batch, int dp_size) {
  std::vector<std::int64_t> sizes;
  const auto add = [&](std::int64_t size) {
    if (train_batch / size >= dp_size) sizes.push_back(size);
  };
  for (std::int64_t size = 1; size <= train_batch / size; ++size) {
    if (train_batch % size != 0) continue;
    add(size);
    if (size != train_batch / size) add(train_batch / size);
  }
  std::ranges::sort(sizes);
  return sizes;
}

bool deals(std::int64_t train_batch, std::int64_t micro_batch, int dp_size) {
  return train_batch % micro_batch == 0 && train_batch / micro_batch >= dp_size;
}

ResolvedBatch dealt(std::int64_t train_batch, std::int64_t micro_batch, int dp_size) {
  return {train_batch, micro_batch, core::ceil_div(train_batch / micro_batch, dp_size)};
}

// Of a step that the ranks do not divide: the largest micro-batches with which the rank that has
// most samples has at most an eighth more than it must.
ResolvedBatch dealt_by_choice(std::int64_t train_batch, int dp_size) {
  const std::int64_t least = core::ceil_div(train_batch, dp_size);
  ResolvedBatch out = dealt(train_batch, 1, dp_size);
  for (const std::int64_t size : sizes_that_deal(train_batch, dp_size)) {
    const ResolvedBatch batch = dealt(train_batch, size, dp_size);
    if (size * batch.accumulation <= least + least / 8) out = batch;
  }
  return out;
}

// "; micro-batches of train_micro_batch_size_per_gpu 1 or 2 are dealt unevenly ...", or "" where
// that would not help either.
std::string cure_by_dealing(const BatchTriad& given, const ResolvedBatch& batch, int dp_size) {
  const std::vector<std::int64_t> sizes = sizes_that_deal(batch.train_batch, dp_size);
  if (!given.train_batch || sizes.empty()) return "";
  constexpr std::size_t kShown = 8;
  std::vector<std::string> words;
  for (const std::int64_t size : sizes) words.push_back(std::to_string(size));
  if (words.size() > kShown) words.erase(words.begin(), words.end() - kShown);
  return core::concat(
      "; without gradient_accumulation_steps, micro-batches are dealt unevenly over the data ranks "
      "where train_micro_batch_size_per_gpu is one of ",
      core::join(words, ", "));
}

// The table of what is given and what follows from it.
ResolvedBatch fill(const BatchTriad& given, int dp_size) {
  const auto& [train, micro, accumulation] = given;
  if (train && !accumulation && *train >= dp_size) {
    if (micro && deals(*train, *micro, dp_size)) return dealt(*train, *micro, dp_size);
    if (!micro && *train % dp_size != 0) return dealt_by_choice(*train, dp_size);
  }
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
                " has to be greater than 0; train_batch_size must be at least micro-batch x ranks",
                cure_by_dealing(given, batch, dp_size), " ", values);
  const std::int64_t product = multiply(batch.micro_batch, batch.accumulation, dp_size);
  const bool unevenly = !given.accumulation && deals(batch.train_batch, batch.micro_batch, dp_size);
  FM_USER_CHECK(batch.train_batch == product || unevenly,
                "Check batch related parameters. train_batch_size is not equal to "
                "micro_batch_per_gpu * gradient_acc_step * world_size ",
                batch.train_batch, " != ", batch.micro_batch, " * ", batch.accumulation, " * ",
                dp_size, "; use ", product, ", or leave one of the three out",
                cure_by_dealing(given, batch, dp_size), " ", values);
  return batch;
}

std::string dealt_text(const ResolvedBatch& batch, int dp_size) {
  const std::string start =
      core::concat(batch.train_batch, " samples = ", batch.micro_batch, " per micro-batch x ");
  const std::string ranks = core::counted(dp_size, "data rank");
  if (batch.is_even(dp_size)) {
    return core::concat(start, batch.accumulation, " accumulation x ", ranks);
  }
  constexpr int kShown = 8;
  const std::int64_t with_more = batch.slots() % dp_size;
  std::vector<std::string> counts;
  for (int rank = 0; rank < dp_size; ++rank) {
    counts.push_back(std::to_string(batch.micros_of(rank, dp_size)));
  }
  if (dp_size <= kShown) return core::concat(start, core::join(counts, ", "), " on ", ranks);
  return core::concat(start, batch.accumulation, " on ", with_more, " and ", batch.accumulation - 1,
                      " on ", dp_size - with_more, " of ", ranks);
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
