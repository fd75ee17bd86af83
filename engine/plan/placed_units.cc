#include "engine/plan/placed_units.h"

#include <span>

#include "core/check.h"
#include "engine/plan/pipe_schedule.h"
#include "pipeline/partition.h"

namespace fm::engine {
namespace {

using Footprints = std::vector<pipeline::UnitFootprint>;

// Bytes of this part; FLOPs of the one that decides.
Footprints footprints_of(const model::Model& model, const RunShape& run) {
  const model::Model& deciding = model.deciding();
  Footprints out;
  for (int unit = 0; unit < model.unit_count(); ++unit) {
    const model::UnitSizes sizes = model.sizes(unit, run.shape, run.threads);
    const bool head = unit == model.head_unit();
    pipeline::UnitFootprint at;
    at.kept = sizes.kept;
    // The gradient that tiles read stays where it is.
    at.parked = unit == 0 && model.tile_rows > 0 ? core::Bytes(0) : sizes.parked;
    at.scratch = sizes.scratch;
    at.forward_flops =
        head ? deciding.head->forward_flops(run.shape)
             : deciding.units[static_cast<std::size_t>(unit)]->forward_flops(run.shape);
    if (head) at.between = model.head->between_tiles(run.shape);
    out.push_back(at);
  }
  out.resize(static_cast<std::size_t>(model.table_count()));  // the ends work for their tiles
  return out;
}

std::vector<PeerBytes> bytes_to_peers(const model::Model& model, const RunShape& run) {
  std::vector<PeerBytes> out;
  for (int unit = 0; unit < model.unit_count(); ++unit) {
    const model::UnitSizes sizes = model.sizes(unit, run.shape, run.threads);
    const auto& tensor = sizes.to_tensor_peers;
    out.push_back({sizes.sent_forward + tensor.forward, tensor.output,
                   sizes.sent_backward + tensor.input, tensor.weight});
  }
  out.resize(static_cast<std::size_t>(model.table_count()));
  return out;
}

// Of a model with so many blocks.
int segment_blocks(const TrainOptions& options, int blocks) {
  if (!options.checkpoint_segments) return options.checkpoint_interval;
  return static_cast<int>(core::ceil_div(blocks, *options.checkpoint_segments));
}

// Forward and backward of a unit, as far as it has one.
double whole_time(const UnitTimes& times, const model::Model& model, int unit) {
  if (unit == model.head_unit()) return times.head;
  const UnitTimes::Phases& own = unit == 0 ? times.embedding : times.block;
  return unit < model.first_trained() ? own.forward : own.whole();
}

// Costs are measured times, or floating-point operations.
pipeline::UnitWeights unit_weights(const TrainOptions& options, const model::Model& model,
                                   std::span<const pipeline::UnitFootprint> footprints) {
  pipeline::UnitWeights out;
  for (int unit = 0; unit < model.unit_count(); ++unit) {
    const double flops = footprints[static_cast<std::size_t>(unit)].forward_flops *
                         whole_forwards(unit, model.first_trained());
    out.costs.push_back(options.unit_times ? whole_time(*options.unit_times, model, unit) : flops);
    out.parameters.push_back(static_cast<double>(model.table(unit).elements().count()));
  }
  for (const model::Tile& tile : model.tiles) {
    const bool head = tile.end == model::Tile::Matrix::kHead;
    (head ? out.parameters.back() : out.parameters.front()) +=
        static_cast<double>(tile.table.elements().count());
  }
  if (const core::ParamTable* const tied = model.head->tied_params()) {
    out.parameters.back() += static_cast<double>(tied->elements().count());
  }
  return out;
}

// Tokens that each of the tensor-parallel ranks has of a micro-batch.
std::int64_t own_tokens(const TrainOptions& options, core::BatchShape shape) {
  if (!options.megatron_sequence_parallel) return shape.tokens();
  FM_USER_CHECK(
      options.model_parallel_size > 1 && shape.tokens() % options.model_parallel_size == 0,
      "--megatron_sequence_parallel splits the tokens of a micro-batch between tensor-"
      "parallel ranks; use a --model_parallel_size of 2 or more that divides micro-batch "
      "size x --max_seq_len, or leave it out (model_parallel_size=",
      options.model_parallel_size, ", tokens=", shape.tokens(), ")");
  return shape.tokens() / options.model_parallel_size;
}

}  // namespace

double whole_forwards(int unit, int first_backward) { return unit < first_backward ? 1.0 : 3.0; }

PlacedUnits place_units(const TrainOptions& options, const model::Model& model,
                        const RunShape& run) {
  const model::Model& deciding = model.deciding();
  const pipeline::PipeShape pipe = pipe_shape_of(options, run.micros());
  Footprints of_deciding = footprints_of(deciding, run);
  pipeline::Placement units =
      pipeline::split_units(options.partition, unit_weights(options, deciding, of_deciding), pipe,
                            model.head->tied_params() != nullptr);
  using Matrix = model::Tile::Matrix;
  units.add_tiles(model.tiles_at(Matrix::kEmbedding), model.tiles_at(Matrix::kHead));
  units.segment_blocks = segment_blocks(options, model.unit_count() - 2);
  units.first_backward = deciding.first_trained();
  UnitNeeds needs{.footprints = footprints_of(model, run),
                  .to_peers = bytes_to_peers(model, run),
                  .hidden = core::Elements(own_tokens(options, run.shape) * model.hidden),
                  .rope = core::Elements(model.rotary * run.shape.row())};
  return {std::move(units), std::move(needs), std::move(of_deciding)};
}

}  // namespace fm::engine
