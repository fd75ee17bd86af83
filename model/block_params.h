// The parameters of a block: their table, and where each part finds its own.
#pragma once

#include "core/param_table.h"
#include "model/decoder_config.h"
#include "model/projection.h"

namespace fm::model {

struct NormPlaceAt {
  std::int64_t weight = 0;  // offsets
  std::int64_t bias = -1;   // of LayerNorm
};

struct BlockPlaces {
  NormPlaceAt norm1, norm2, q_norm, k_norm;  // those that the block has
  Projection qkv;                            // QkvMatrix::kPerHead
  Projection q, k, v;                        // else
  Projection out;
  Projection gate;  // where the MLP is gated
  Projection up, down;
};

core::ParamTable block_table(const DecoderConfig& config, std::int64_t layer,
                             const core::NoDecay& no_decay);
BlockPlaces block_places(const DecoderConfig& config, std::int64_t layer,
                         const core::ParamTable& table);

// Of the parameter with this whole name, in elements; -1: the table has none.
std::int64_t offset_of(const core::ParamTable& table, const std::string& name);

}  // namespace fm::model
