// One micro-batch as every unit sees it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

#include "core/sequence_part.h"
#include "core/types.h"

namespace fm::model {

// What dropout of a training step follows from (model/units/dropout.h).
struct StepDropout {
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::int64_t first_sample = 0;  // of the micro-batch, within the step
};

struct UnitInput {
  core::BatchShape shape;
  const std::int32_t* tokens_BT = nullptr;  // first pipe rank only
  const std::int32_t* labels_BT = nullptr;  // last pipe rank only; -100 is not counted
  // Where in its row the document of each token begins: attention and positions begin there. Of
  // whole rows, [B, shape.row()]. Null: with the row.
  const std::int32_t* starts_BT = nullptr;
  std::optional<StepDropout> dropout = {};  // none: evaluation
  core::TokenRuns runs = {};                // what the arrays hold of a row that ranks share

  std::span<const std::int32_t> tokens() const {
    return {tokens_BT, static_cast<std::size_t>(shape.tokens())};
  }
  core::TokenRuns runs_of_row() const {
    return shape.split.ranks() > 1 ? runs : core::TokenRuns{core::TokenRun{0, shape.seq_len}};
  }
};

// Adjacent tokens, of a document or of rows that are one document each.
struct DocumentRun {
  std::int64_t first = 0;     // of the B x T tokens that the arrays hold
  core::BatchShape shape;     // rows of it
  std::int64_t position = 0;  // of the first token in its document
  std::int64_t length = 0;    // of the whole document
};

// run(DocumentRun) for every run of tokens of a document; where all rows are whole documents, once
// for them together.
template <class Run>
void for_every_run(const UnitInput& input, const Run& run) {
  const std::int64_t row = input.shape.row();
  if (input.starts_BT == nullptr && input.shape.split.ranks() == 1) {
    return run(DocumentRun{0, input.shape, 0, row});
  }
  std::int64_t first = 0;
  for (std::int64_t b = 0; b < input.shape.batch; ++b) {
    const std::int32_t* const starts =
        input.starts_BT == nullptr ? nullptr : input.starts_BT + b * row;
    for (const core::TokenRun& tokens : input.runs_of_row()) {
      for (std::int64_t at = tokens.first; at < tokens.end();) {
        const std::int64_t start = starts == nullptr ? 0 : starts[at];
        const std::int64_t end =
            starts == nullptr ? row : std::upper_bound(starts + at, starts + row, start) - starts;
        const std::int64_t count = std::min(end, tokens.end()) - at;
        run(DocumentRun{first, {.batch = 1, .seq_len = count}, at - start, end - start});
        first += count;
        at += count;
      }
    }
  }
}

// run(first of the B x T tokens that the arrays hold, their number, the first one's place among the
// tokens of all rows of the micro-batch) for all of them.
template <class Run>
void for_every_token_run(const UnitInput& input, const Run& run) {
  if (input.shape.split.ranks() == 1)
    return run(std::int64_t{0}, input.shape.tokens(), std::int64_t{0});
  std::int64_t first = 0;
  for (std::int64_t b = 0; b < input.shape.batch; ++b) {
    for (const core::TokenRun& tokens : input.runs) {
      if (tokens.count > 0) run(first, tokens.count, b * input.shape.row() + tokens.first);
      first += tokens.count;
    }
  }
}

}  // namespace fm::model
