// Random initial weights.
#pragma once

#include <cstdint>
#include <span>

#include "core/param_table.h"
#include "core/types.h"

namespace fm::model {

// Initial values of elements [first, first + out.size()) of one parameter: norms are ones,
// biases zeros, the rest normal(0, standard_deviation) by Philox keyed by (seed, parameter name,
// element). A slice gets the same values as in the whole parameter.
void init_parameter(const core::ParamEntry& entry, std::uint64_t seed, double standard_deviation,
                    core::Elements first, std::span<float> out);

// Sets those elements of row `row` of a matrix with `width` columns to 0 that are in
// [first, first + out.size()).
void clear_row(std::int64_t row, std::int64_t width, core::Elements first, std::span<float> out);

}  // namespace fm::model
