// Cuts the embedding's and the head's matrix into tiles (model/tile.h).
#pragma once

#include <string>
#include <vector>

#include "model/choices.h"
#include "model/families/decoder_config.h"
#include "model/tile.h"

namespace fm::model {

// Of `rows`, each of `each` but the last, which has the rest: up to a step more than the others,
// because a short one would be multiplied by other means.
std::vector<core::IndexRange> tile_ranges(std::int64_t rows, std::int64_t each);

// Whether the matrices of such a model can be in tiles; "" or the reason why not.
std::string why_whole(const DecoderConfig& config, const ModelChoices& choices);

// None where choices.tile_rows is 0.
std::vector<Tile> make_tiles(const DecoderConfig& config, const ModelChoices& choices);

}  // namespace fm::model
