// The parameters of a block: their tables, and the places of its projections and norms.
#pragma once

#include <array>

#include "model/families/decoder_config.h"
#include "model/units/projection.h"
#include "model/units/tensor_parallel.h"
#include "model/units/unit_tables.h"

namespace fm::model {

struct NormPlaceAt {
  ParamPlace weight;
  ParamPlace bias;  // of LayerNorm
};

struct BlockPlaces {
  NormPlaceAt norm1, norm2, after1, after2, q_norm, k_norm;  // where the block has them
  Projection qkv;                                            // QkvMatrix::kPerHead
  Projection q, k, v;                                        // else
  Projection out;
  Projection gate;  // where the MLP is gated
  Projection up, down;
  // The same matrices as one, where they are neighbours (ModelChoices::fuses_projections); else it
  // has no outputs.
  Projection fused_qkv, fused_gate_up;

  std::array<const Projection*, 8> all() const {
    return {&qkv, &q, &k, &v, &out, &gate, &up, &down};
  }
};

// `config`: of the whole block.
UnitTables block_tables(const DecoderConfig& config, std::int64_t layer,
                        const ModelChoices& choices);
// `config`: of this rank's part of the block (rank_config).
BlockPlaces block_places(const DecoderConfig& config, std::int64_t layer, const UnitTables& tables,
                         const ModelChoices& choices, const TensorParts& parts);

}  // namespace fm::model
