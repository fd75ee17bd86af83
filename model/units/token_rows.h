// Rows of the embedding and the head that are trained beside adapters, as peft's
// trainable_token_indices. The matrix is trained, and the gradient of all other rows is zero, so
// that these keep their bits: no rule moves a number without gradient, moments or weight decay.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/param_table.h"
#include "core/work.h"
#include "model/choices.h"

namespace fm::model {

// The choices of the unit that holds the matrix: where it has such rows it is trained, and nothing
// of its kind decays.
ModelChoices with_token_rows(ModelChoices choices, const std::string& matrix);
// Clears the gradient of all rows but these; drows_VD has this rank's rows, `width` wide each.
void clear_other_rows(const core::Work& work, const std::vector<std::int64_t>& token_rows,
                      core::IndexRange rows, std::int64_t width, float* drows_VD);

}  // namespace fm::model
