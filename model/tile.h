// Rows of the embedding's or the head's matrix that are gathered, reduced and updated by
// themselves, so that the matrix is never whole. Losses and gradients have the bits of the whole.
#pragma once

#include "core/param_table.h"
#include "kernels/pointwise/cross_entropy.h"
#include "model/unit_call.h"

namespace fm::model {

struct Tile {
  enum class Matrix : std::uint8_t { kEmbedding, kHead };
  Matrix end = Matrix::kEmbedding;
  core::IndexRange rows = {};
  core::ParamTable table = {};  // the rows alone
};

// How many rows tiles have: a multiple of this, so that sums over the vocabulary are cut where the
// whole head cuts them, too. The last tile has the rest.
inline constexpr std::int64_t kTileStep = kernels::kVocabTile;

// Over the tiles of a head.
enum class TilePass : std::uint8_t { kMaxima, kSums, kGradients };

// Of a tile's rows; none where nothing is written.
struct TileGradient {
  float* rows = nullptr;
  Write write = Write::kAssign;
};
// call.weights.own: the tile's rows.
struct TileCall {
  const UnitCall& call;
  const Tile& tile;
  TileGradient gradient = {};
};

}  // namespace fm::model
