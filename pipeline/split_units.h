// Which units of the model live on which pipe rank.
#pragma once

#include <vector>

#include "pipeline/instruction.h"

namespace fm::pipeline {

// Units [first, last) of one pipe rank. Unit 0 is the embedding, the last unit of the last rank is
// the head; between them blocks.
struct UnitRange {
  int first = 0;
  int last = 0;
  int count() const { return last - first; }
  bool contains(int unit) const { return unit >= first && unit < last; }
};

// The row of units as every pass sees it.
struct UnitRow {
  std::vector<UnitRange> ranges;  // by pipe rank, in order, without gaps
  bool tied = false;              // the head uses the embedding's matrix
  // Both ends of the tied matrix lie on one rank and write one gradient; the embedding's Reduce
  // sums it.
  bool one_tied_gradient = false;

  int pipe_ranks() const { return static_cast<int>(ranges.size()); }
  int unit_count() const { return ranges.back().last; }
  int head() const { return unit_count() - 1; }
  bool is_block(int unit) const { return unit > 0 && unit < head(); }
  // Units of a rank that have Forward and Backward (the head has Loss instead).
  UnitRange body(int pipe_rank) const {
    UnitRange range = ranges[static_cast<std::size_t>(pipe_rank)];
    if (range.last == unit_count()) --range.last;
    return range;
  }
  bool is_first(int pipe_rank) const { return pipe_rank == 0; }
  bool is_last(int pipe_rank) const { return pipe_rank == pipe_ranks() - 1; }
  // Whether an instruction reads the weights of its unit: everything that computes but the
  // embedding's backward.
  bool reads_weights(const Instruction& at) const {
    const OpRow::Weights weights = row_of(at.op).weights;
    return weights == OpRow::Weights::kRead ||
           (weights == OpRow::Weights::kReadByBlocks && is_block(at.unit));
  }
  // The unit an instruction works on; Loss works on the head.
  int unit_of(const Instruction& at) const { return at.op == Op::kLoss ? head() : at.unit; }
  // Ranks that hold an end of the tied matrix take part in ReduceTied, when each has a gradient.
  bool has_tied_end(int pipe_rank) const {
    return tied && !one_tied_gradient && (is_first(pipe_rank) || is_last(pipe_rank));
  }
};

// Blocks evenly, earlier ranks take the remainder (the last one has the head's extra work).
// UserError when there are fewer blocks than pipe ranks.
UnitRow split_units(int blocks, int pipe_ranks, bool tied);

}  // namespace fm::pipeline
