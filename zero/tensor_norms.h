// Norms of every tensor of a group whose numbers are spread over the data ranks.
#pragma once

#include <vector>

#include "comm/communicator.h"
#include "core/param_table.h"

namespace fm::zero {

// `values`: of numbers [first, first + count) of the group, where `first` is a multiple of 1,024
// and so is `count` but at the group's end. Squares are added in fp64 by blocks of 1,024 of the
// group's numbers, the blocks of a tensor in the tree of core/tree.h: any number of ranks gives the
// same bits. `dp`: the ranks that hold the rest, null when nobody else does; collective.
std::vector<double> tensor_norms(const core::ParamTable& table, core::Elements first,
                                 core::Elements count, const float* values, comm::Communicator* dp);

}  // namespace fm::zero
