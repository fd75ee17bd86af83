// Deals samples to slots: slot s = k * dp + r is micro-batch k of data rank r; row b of slot s is
// sample first + s * B + b of the step (docs/numbers.md, "Order of sums"). Slots that a step does
// not have hold zeros, and no label of them counts.
#pragma once

#include <limits>
#include <vector>

#include "core/sequence_part.h"
#include "core/types.h"
#include "text/data/sample_source.h"

namespace fm::data {

struct MicroBatch {
  std::vector<std::int32_t> tokens_BT;
  std::vector<std::int32_t> labels_BT;
  // Where in its row the document of each token begins, of whole rows [B, shape.row()]; empty where
  // the layout asks for none.
  std::vector<std::int32_t> starts_BT;
};

class BatchStream {
 public:
  struct Layout {
    core::BatchShape shape;
    int micros = 1;
    int dp_size = 1;
    int dp_rank = 0;
    // Documents see nothing of each other: a label that begins another one is not counted.
    bool documents_apart = false;
    core::TokenRuns runs = {};  // what this rank has of rows that shape.split says are shared
    std::int64_t slots = std::int64_t{micros} * dp_size;  // of a step
  };
  BatchStream(const SampleSource& source, const Layout& layout);

  // Reads every micro-batch of this data rank for the step that starts at global sample `first`.
  // Rows of samples at or beyond `end_sample` keep their tokens but no label counts (evaluation).
  void load_step(std::int64_t first_sample,
                 std::int64_t end_sample = std::numeric_limits<std::int64_t>::max());
  const MicroBatch& micro(int index) const { return micros_[static_cast<std::size_t>(index)]; }
  // Labels that count among this rank's tokens of the loaded micro-batches; or among all tokens of
  // one of them, those of other sequence ranks included.
  std::int64_t count_valid() const;
  std::int64_t count_valid(int micro) const;

 private:
  void take_runs(std::span<const std::int32_t> row_T, std::int32_t* to) const;
  void keep_apart(std::int64_t sample, std::span<std::int32_t> starts_T,
                  std::span<std::int32_t> labels_T) const;

  const SampleSource& source_;
  Layout layout_;
  std::vector<MicroBatch> micros_;
  std::vector<std::int64_t> valid_;             // by micro-batch
  std::vector<std::int32_t> row_, row_labels_;  // one row, where ranks share rows
};

}  // namespace fm::data
