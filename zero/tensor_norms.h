// Norms of every tensor of a flat parameter whose numbers are spread over the data ranks.
#pragma once

#include <span>
#include <vector>

#include "comm/words.h"
#include "core/param_table.h"
#include "core/work.h"
#include "zero/block_squares.h"

namespace fm::zero {

// Who holds the rest of a flat parameter, and of its tensors; null: nobody else.
struct NormRanks {
  comm::Words* data = nullptr;
  comm::Words* tensor = nullptr;
};

// `values`: of numbers [first, first + their count) of the flat parameter, where `first` is a
// multiple of 1,024 and so is the count but at the flat parameter's end. Squares are added in fp64
// by blocks of 1,024 of the flat parameter's numbers, the blocks of a tensor in the tree of
// core/tree.h: any number of data ranks gives the same bits. Sums of tensor-parallel ranks are
// added in their order; what several of them have alike counts at the first. Collective over
// `ranks`.
std::vector<double> tensor_norms(const core::Work& work, const core::ParamTable& table,
                                 core::Elements first, std::span<const float> values,
                                 BlockSquares& squares, const NormRanks& ranks);

// The room that `squares` needs for `values` of any such part.
std::int64_t blocks_of_tensors(const core::ParamTable& table, std::int64_t values);

}  // namespace fm::zero
