// Dropout of a training step. Its bits follow from the seed, the step, the sample and the place in
// the model: neither ranks nor micro-batches nor recomputation change them.
#pragma once

#include <algorithm>

#include "kernels/dropout.h"
#include "model/unit.h"

namespace fm::model {

enum class DropPlace : std::uint8_t { kEmbedding, kAttention, kAttentionOutput, kMlpOutput };

// Drops with `probability` at a place that has this number; nothing where the call is none of a
// training step.
kernels::Dropout dropout_of(const UnitInput& input, double probability, std::uint64_t where);
// Drops with `probability` at a place of a layer (the embedding's is 0).
kernels::Dropout dropout_at(const UnitInput& input, double probability, std::int64_t layer,
                            DropPlace place);

// In place over x [count, width], which are the tokens [first, first + count) of the micro-batch.
template <class T>
void drop_tokens(const kernels::Dropout& by, const UnitInput& input, std::int64_t first,
                 std::int64_t count, std::int64_t width, T* x) {
  if (by.dropped == 0) return;
  const std::int64_t before = input.dropout ? input.dropout->first_sample * input.shape.row() : 0;
  for_every_token_run(input, [&](std::int64_t run, std::int64_t tokens, std::int64_t place) {
    const std::int64_t begin = std::max(run, first);
    const std::int64_t end = std::min(run + tokens, first + count);
    if (begin >= end) return;
    kernels::dropout(by, static_cast<std::uint64_t>((before + place + begin - run) * width),
                     (end - begin) * width, x + (begin - first) * width);
  });
}

// In place over x [B, T, width].
template <class T>
void drop(const kernels::Dropout& by, const UnitInput& input, std::int64_t width, T* x) {
  drop_tokens(by, input, 0, input.shape.tokens(), width, x);
}

// Columns [first, first + count) of rows of `all`.
struct DropColumns {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t all = 0;
};
// The same over x [B, T, count], which are columns of such rows.
template <class T>
void drop_columns(const kernels::Dropout& by, const UnitInput& input, const DropColumns& columns,
                  T* x) {
  if (by.dropped == 0) return;
  const std::int64_t before = input.dropout ? input.dropout->first_sample * input.shape.row() : 0;
  for_every_token_run(input, [&](std::int64_t first, std::int64_t count, std::int64_t place) {
    for (std::int64_t token = 0; token < count; ++token) {
      const std::int64_t number = (before + place + token) * columns.all + columns.first;
      kernels::dropout(by, static_cast<std::uint64_t>(number), columns.count,
                       x + (first + token) * columns.count);
    }
  });
}

}  // namespace fm::model
