// One micro-batch, the input that all units share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

#include "core/sequence_part.h"
#include "core/types.h"

namespace fm::model {

// The key of the dropout of a training step (model/units/dropout.h).
struct StepDropout {
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::int64_t first_sample = 0;  // of the micro-batch, within the step
};

struct UnitInput {
  core::BatchShape shape;
  const std::int32_t* tokens_BT = nullptr;  // first pipe rank only
  const std::int32_t* labels_BT = nullptr;  // last pipe rank only; -100 is not counted
  // For each token, where in the row its document begins; attention and positions begin there. Of
  // whole rows, [B, shape.row()]. Null: every row is one document.
  const std::int32_t* starts_BT = nullptr;
  // Copies of the three in the memory of a device that does the work; null on this CPU.
  struct Copies {
    const std::int32_t* tokens_BT = nullptr;
    const std::int32_t* labels_BT = nullptr;
    const std::int32_t* starts_BT = nullptr;
  };
  std::optional<Copies> copies = {};
  std::optional<StepDropout> dropout = {};  // none: evaluation
  core::TokenRuns runs = {};                // the tokens of this rank, where ranks share a row

  std::span<const std::int32_t> tokens() const {
    return {tokens_BT, static_cast<std::size_t>(shape.tokens())};
  }
  // The arrays that kernels read.
  Copies of_work() const { return copies ? *copies : Copies{tokens_BT, labels_BT, starts_BT}; }
  std::span<const std::int32_t> tokens_of_work() const {
    return {of_work().tokens_BT, static_cast<std::size_t>(shape.tokens())};
  }
  core::TokenRuns runs_of_row() const {
    return shape.split.ranks() > 1 ? runs : core::TokenRuns{core::TokenRun{0, shape.seq_len}};
  }
};

// Adjacent tokens: a run of one document, or of several rows that are one document each.
struct DocumentRun {
  std::int64_t first = 0;     // index among the B x T tokens in the arrays
  core::BatchShape shape;     // the rows of the run
  std::int64_t position = 0;  // of the first token in its document
  std::int64_t length = 0;    // of the whole document
};

// Calls run(DocumentRun) for every run of tokens of a document; once for all rows where every row
// is a whole document.
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

// Calls run(index of the first token in the arrays, number of tokens, index of the first token
// among those of all rows of the micro-batch) for every run of tokens.
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
