// Whether the embedding's and the head's matrix of a run are in tiles (model/tile.h).
#pragma once

#include <cstdint>
#include <string>

#include "engine/options.h"
#include "model/opened_model.h"

namespace fm::engine {

// Rows of a tile; 0: both matrices are whole. `opened`: the model with whole ones. By itself this
// cuts matrices that are larger than a block, where the norm keeps its bits: sums of squares are
// over blocks of 1,024 elements (zero/global_norm.h), which tiles do not cut then. Rows that the
// options name are taken where that is not so, too. Throws UserError for a number of rows that
// tiles cannot have.
std::int64_t tile_rows_of(const TrainOptions& options, const model::OpenedModel& opened);

// What --plan says of them; "": nothing, because parameters do not sleep or no matrix is large.
std::string tile_words(const TrainOptions& options, const model::OpenedModel& opened);

}  // namespace fm::engine
