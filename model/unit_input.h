// One micro-batch as every unit sees it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/types.h"

namespace fm::model {

// What dropout of a training step follows from (model/dropout.h).
struct StepDropout {
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::int64_t first_sample = 0;  // of the micro-batch, within the step
};

struct UnitInput {
  core::BatchShape shape;
  const std::int32_t* tokens_BT = nullptr;  // first pipe rank only
  const std::int32_t* labels_BT = nullptr;  // last pipe rank only; -100 is not counted
  // Where in its row the document of each token begins: attention and positions begin there. Null:
  // with the row.
  const std::int32_t* starts_BT = nullptr;
  std::optional<StepDropout> dropout = {};  // none: evaluation

  std::span<const std::int32_t> tokens() const {
    return {tokens_BT, static_cast<std::size_t>(shape.tokens())};
  }
};

// run(first of the B x T tokens, shape) for every document, one row each; where they do not matter
// once for all rows.
template <class Run>
void for_every_document(const UnitInput& input, const Run& run) {
  if (input.starts_BT == nullptr) return run(std::int64_t{0}, input.shape);
  const std::int64_t tokens = input.shape.tokens();
  std::int64_t first = 0;
  for (std::int64_t next = 1; next <= tokens; ++next) {
    const std::int64_t place = next % input.shape.seq_len;
    if (next < tokens && place != input.starts_BT[next]) continue;
    run(first, core::BatchShape{.batch = 1, .seq_len = next - first});
    first = next;
  }
}

}  // namespace fm::model
