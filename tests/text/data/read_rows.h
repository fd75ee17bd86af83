// Rows of a source, as values to compare.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "text/data/sample_source.h"

namespace fm::testing {

using Ids = std::vector<std::int32_t>;

struct Row {
  Ids tokens, labels;
  auto operator<=>(const Row&) const = default;
};

inline Row read_row(const data::SampleSource& source, std::int64_t position, std::size_t seq_len) {
  Row row{Ids(seq_len), Ids(seq_len)};
  source.read(position, row.tokens, row.labels);
  return row;
}

// The rows of an epoch, in any order.
inline std::set<Row> epoch_of(const data::SampleSource& source, std::int64_t epoch,
                              std::size_t seq_len) {
  std::set<Row> rows;
  const std::int64_t size = source.samples_per_epoch();
  for (std::int64_t i = 0; i < size; ++i) rows.insert(read_row(source, epoch * size + i, seq_len));
  return rows;
}

}  // namespace fm::testing
