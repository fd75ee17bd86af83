// A model is a sequence of units with explicit backward. No autograd, no hooks: three functions
// over plain memory, so a schedule decides when each runs.
//
// Shapes: B rows of T tokens, D hidden elements; hidden_BTD is [B, T, D] row-major.
// A void* points to elements of the model's type (fp32, bf16 or fp16): weights, hidden states and
// their gradients. Gradients of parameters and logits are fp32.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/check.h"
#include "core/param_table.h"
#include "model/tile.h"
#include "model/unit_call.h"

namespace fm::model {

class Unit {
 public:
  virtual ~Unit() = default;
  // The trained parameters; may be empty.
  virtual const core::ParamTable& params() const = 0;
  // The frozen parameters; null: all are trained.
  virtual const core::ParamTable* frozen_params() const { return nullptr; }
  virtual UnitSizes sizes(core::BatchShape shape, int threads) const = 0;  // of a call's Work
  // Floating-point operations of one forward (multiply-adds count two); backward is twice that.
  virtual double forward_flops(core::BatchShape shape) const = 0;

  // saved.input_BTD -> output_BTD; fills saved.kept. output_BTD null (never for the embedding):
  // only fill saved.kept (recomputation), skipping what only the output needs.
  virtual void forward(const UnitCall& call, void* output_BTD) const = 0;
  // The gradient of the input; fills saved.parked for backward_weight. dinput_BTD is null for the
  // embedding, and where no earlier unit is trained. It does not overlap doutput_BTD, which may be
  // overwritten.
  virtual void backward_input(const UnitCall& call, void* doutput_BTD, void* dinput_BTD) const = 0;
  // Writes the gradients of all trained parameters, never gaps between them; reads no weights.
  virtual void backward_weight(const UnitCall& call, const Gradients& gradients,
                               Write write) const = 0;

  // The rows of a tile of the embedding's matrix, in the places of their tokens; forward then
  // finishes all places. And the gradient of those rows, from what backward_input has parked.
  virtual void forward_tile(const TileCall& /*call*/, void* /*output_BTD*/) const { no_tiles(); }
  virtual void backward_tile(const TileCall& /*call*/) const { no_tiles(); }

  // Decoding, which a family need not support. The elements of a position in the cache:
  virtual std::int64_t cache_width() const { return 0; }
  // For a call of `decode` with `tokens` tokens in all, in sequences of at most `positions`.
  virtual UnitSizes decode_sizes(std::int64_t tokens, std::int64_t /*positions*/,
                                 int threads) const {
    return sizes({.batch = 1, .seq_len = tokens}, threads);
  }
  // Like forward, for the new tokens of all sequences; call.input.shape is one row of them.
  virtual void decode(const UnitCall& /*call*/, std::span<const CachedSequence> /*sequences*/,
                      void* /*output_ND*/) const {
    FM_CHECK(false, "this family does not decode");
  }

 protected:
  static void no_tiles() { FM_CHECK(false, "this family has no tiles"); }
};

// The head: final norm, language-model matrix and cross-entropy, forward and whole backward in
// chunks of rows, so the logits of all rows never exist at once. The number of rows of a chunk
// depends on (tokens, vocabulary) only.
class LossUnit {
 public:
  virtual ~LossUnit() = default;
  virtual const core::ParamTable& params() const = 0;
  virtual const core::ParamTable* frozen_params() const { return nullptr; }
  // The table of the embedding when the head uses its matrix; the second one where it is frozen.
  virtual const core::ParamTable* tied_params() const { return nullptr; }
  virtual const core::ParamTable* frozen_tied_params() const { return nullptr; }
  virtual UnitSizes sizes(core::BatchShape shape) const = 0;
  virtual double forward_flops(core::BatchShape shape) const = 0;

  // Adds the token losses (nats) to `sum`, one number where the work is, in token order in fp64. In
  // place: hidden_BTD becomes dhidden_BTD of (scale x what is added), if it is needed. `write`
  // applies to the gradients (kAssign: the first chunk assigns, the others add).
  virtual void loss(const UnitCall& call, void* hidden_BTD, double scale,
                    const Gradients& gradients, Write write, double* sum) const = 0;
  // Adds the token losses only.
  virtual void evaluate(const UnitCall& call, const void* hidden_BTD, double* sum) const = 0;
  // Where the matrix is in tiles: begin_tiles, all tiles in ascending order in each pass of
  // TilePass, then loss or evaluate, which only finish. What is between them is in saved.kept.
  virtual core::Bytes between_tiles(core::BatchShape /*shape*/) const { return {}; }
  virtual void begin_tiles(const UnitCall& /*call*/, const void* /*hidden_BTD*/) const {
    FM_CHECK(false, "this head has no tiles");
  }
  virtual void pass_tile(const TileCall& /*call*/, TilePass /*pass*/, double /*scale*/) const {
    FM_CHECK(false, "this head has no tiles");
  }
  // Logits of rows, for sampling: hidden_ND [N, D] -> logits_NV [N, V].
  virtual void logits(const Weights& weights, std::int64_t rows, const void* hidden_ND,
                      float* logits_NV, core::Work& work) const = 0;
};

// Units 0 .. units.size()-1 (embedding, blocks), then the head as unit number units.size().
struct Model {
  std::vector<std::unique_ptr<Unit>> units;
  std::unique_ptr<LossUnit> head;
  std::int64_t hidden = 0;
  std::int64_t vocab = 0;
  std::int64_t heads = 0, kv_heads = 0;     // of attention; 0: it has none
  std::int64_t rotary = 0;                  // elements of a head that RoPE rotates
  bool tied = false;                        // the head uses the embedding's matrix
  core::DType element = core::DType::kF32;  // of weights, hidden states and their gradients
  core::Share share = {};                   // the tensor-parallel rank whose part the units are
  // The part of the first tensor-parallel rank, which is the largest; null where this is it.
  std::shared_ptr<const Model> first_part = nullptr;

  // The model whose sizes decide where all tensor-parallel ranks must act alike.
  const Model& deciding() const { return first_part ? *first_part : *this; }
  // Their numbers follow that of the head: those of the embedding, then those of the head.
  std::vector<Tile> tiles;
  std::int64_t tile_rows = 0;  // 0: there are none

  int unit_count() const { return static_cast<int>(units.size()) + 1; }
  int head_unit() const { return static_cast<int>(units.size()); }
  int table_count() const { return unit_count() + static_cast<int>(tiles.size()); }
  bool is_tile(int unit) const { return unit >= unit_count(); }
  const Tile& tile(int unit) const { return tiles[static_cast<std::size_t>(unit - unit_count())]; }
  int tiles_at(Tile::Matrix end) const {
    return static_cast<int>(std::ranges::count(tiles, end, &Tile::end));
  }
  const core::ParamTable& table(int unit) const {
    if (is_tile(unit)) return tile(unit).table;
    return unit == head_unit() ? head->params() : units[static_cast<std::size_t>(unit)]->params();
  }
  const core::ParamTable* frozen_table(int unit) const {
    if (is_tile(unit)) return nullptr;
    return unit == head_unit() ? head->frozen_params()
                               : units[static_cast<std::size_t>(unit)]->frozen_params();
  }
  bool has_frozen() const {
    for (int unit = 0; unit < unit_count(); ++unit) {
      if (frozen_table(unit) != nullptr) return true;
    }
    return false;
  }
  int first_trained() const {  // needs no gradient of its input
    if (tiles_at(Tile::Matrix::kEmbedding) > 0) return 0;
    int unit = 0;
    while (unit < head_unit() && !trains(unit)) ++unit;
    return unit;
  }
  bool trains(int unit) const {  // backward writes a gradient of the unit
    if (is_tile(unit)) return true;
    const bool tied_matrix = unit == head_unit() && head->tied_params() != nullptr;
    return tied_matrix || !table(unit).entries().empty();
  }
  UnitSizes sizes(int unit, core::BatchShape shape, int threads) const {
    return unit == head_unit() ? head->sizes(shape)
                               : units[static_cast<std::size_t>(unit)]->sizes(shape, threads);
  }
};

}  // namespace fm::model
