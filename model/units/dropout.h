// Dropout of a training step. Its random bits depend on the seed, the step, the sample and the
// place in the model only: neither ranks nor micro-batches nor recomputation change them.
#pragma once

#include <algorithm>

#include "kernels/dropout.h"
#include "model/unit.h"

namespace fm::model {

enum class DropPlace : std::uint8_t { kEmbedding, kAttention, kAttentionOutput, kMlpOutput };

// Dropout with `probability` at the place with this number; none where the call is not part of a
// training step.
kernels::Dropout dropout_of(const UnitInput& input, double probability, std::uint64_t where);
// Dropout with `probability` at a place of a layer (layer 0 for the embedding).
kernels::Dropout dropout_at(const UnitInput& input, double probability, std::int64_t layer,
                            DropPlace place);

// Tokens [first, first + count) of the micro-batch, and columns [first_column, first_column +
// columns) of their `width` numbers.
struct DropPart {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t width = 0;
  std::int64_t first_column = 0;
  std::int64_t columns = 0;  // 0: all
};
// In place over x [count, columns].
template <class T>
void drop(const core::Work& work, const kernels::Dropout& by, const UnitInput& input,
          const DropPart& part, T* x) {
  if (by.dropped == 0) return;
  const std::int64_t before = input.dropout ? input.dropout->first_sample * input.shape.row() : 0;
  const std::int64_t columns = part.columns > 0 ? part.columns : part.width;
  for_every_token_run(input, [&](std::int64_t run, std::int64_t tokens, std::int64_t place) {
    const std::int64_t end = std::min(run + tokens, part.first + part.count);
    const std::int64_t begin = std::max(run, part.first);
    const std::int64_t at_once = columns == part.width ? end - begin : 1;  // adjacent rows
    for (std::int64_t token = begin; token < end; token += at_once) {
      const std::int64_t number = (before + place + token - run) * part.width + part.first_column;
      kernels::dropout(work, by, static_cast<std::uint64_t>(number), at_once * columns,
                       x + (token - part.first) * columns);
    }
  });
}

// In place over x [B, T, width].
template <class T>
void drop(const core::Work& work, const kernels::Dropout& by, const UnitInput& input,
          std::int64_t width, T* x) {
  drop(work, by, input, DropPart{0, input.shape.tokens(), width}, x);
}

}  // namespace fm::model
