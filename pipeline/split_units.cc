#include "pipeline/split_units.h"

#include "core/check.h"

namespace fm::pipeline {

UnitRow split_units(int blocks, int pipe_ranks, bool tied) {
  FM_USER_CHECK(pipe_ranks >= 1 && blocks >= pipe_ranks,
                "every pipe rank needs at least one transformer block; use --pipe_parallel_size ",
                "of at most the number of layers (pipe_parallel_size=", pipe_ranks,
                ", num_hidden_layers=", blocks, ")");
  UnitRow row;
  row.tied = tied;
  int next = 0;
  for (int rank = 0; rank < pipe_ranks; ++rank) {
    const int share = blocks / pipe_ranks + (rank < blocks % pipe_ranks ? 1 : 0);
    UnitRange range{next, next + share};
    if (rank == 0) ++range.last;               // the embedding
    if (rank == pipe_ranks - 1) ++range.last;  // the head
    row.ranges.push_back(range);
    next = range.last;
  }
  return row;
}

}  // namespace fm::pipeline
