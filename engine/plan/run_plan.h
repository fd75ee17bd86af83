// Everything about a run that follows from options, model and number of ranks alone: mesh, batch,
// programs of every pipe rank (checked), and what they need. Pure; needs no weights and no ranks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "core/mesh.h"
#include "engine/options.h"
#include "engine/plan/batch_triad.h"
#include "model/unit.h"
#include "pipeline/account.h"
#include "pipeline/validate.h"
#include "zero/layout.h"

namespace fm::engine {

struct MemoryForecast {  // bytes of one rank, owned for the whole run
  core::Bytes params, grads, optimizer, slots, scratch, activations;
  core::Bytes tables;  // of RoPE, which no account of the ledger has
  core::Bytes total() const {
    return params + grads + optimizer + slots + scratch + activations + tables;
  }
};

// Of a unit and a micro-batch: what a rank sends to those that compute the unit with it, as
// tensor-parallel ranks or with other tokens of its rows (model::UnitSizes).
struct PeerBytes {
  core::Bytes forward, output, input, weight;
};

// Lifetime: the model that it was made of outlives it.
struct RunPlan {
  core::Mesh mesh;
  ResolvedBatch batch;
  core::BatchShape shape;                           // of one micro-batch on a rank
  pipeline::ProgramRules rules;                     // units, micros, shard plan
  zero::LayoutInput state;                          // what every rank's layout follows from
  std::vector<pipeline::UnitFootprint> footprints;  // by unit
  std::vector<PeerBytes> to_peers;                  // by unit
  core::Elements hidden;                            // B x T x D: one hidden state on a rank
  core::Elements rope;                              // cosines and sines of a row's positions
  std::string schedule;                             // its name
  pipeline::PipeShape pipe;                         // what the schedule was made for
  std::vector<pipeline::Program> scheduled;         // its order of chunks, by pipe rank
  std::vector<pipeline::Program> train, eval;       // by pipe rank
  // Of a step that the one behind it validates (pipeline/post_validation.h); empty: no step is.
  std::vector<pipeline::Program> ahead;
  bool overlap = false;  // of messages between hosts with what units compute

  const pipeline::Placement& units() const { return rules.units; }
  // The larger of both programs' needs, pool by pool: what a rank allocates.
  pipeline::PoolSizes pools(int pipe_rank) const;
  zero::Layout layout(int pipe_rank, int dp_rank) const;
  // By pipe rank: pipeline::peak_activations of the chunks that have a backward.
  std::vector<double> kept_micros() const;
  MemoryForecast memory(int pipe_rank) const;
  // That a rank sends in one step, by picture of the instruction ("g", "R", "p", "sa" ...); those
  // of computing ones are of ranks that compute together.
  std::map<std::string, core::Bytes> wire_bytes(int pipe_rank) const;
  // Model FLOPs of one step over all ranks (forward x 3, of units without backward x 1;
  // recomputation not counted).
  double flops_per_step() const;
  double forward_flops_per_step() const;
  double forwards_per_step() const {  // of a unit, over all ranks
    return static_cast<double>(batch.accumulation) * mesh.shards() * mesh.model;
  }
  std::int64_t tokens_per_step() const { return batch.train_batch * shape.row(); }
};

// The ranks of a run, and whether the data ranks of every pipe rank run on one host, where they
// have their parameters in memory that they share.
struct WorldShape {
  int ranks = 1;
  core::ParamSharing sharing = core::ParamSharing::kPrivate;
};
WorldShape shape_of(const TrainOptions& options, const comm::Communicator& world);

// Throws UserError for sizes that do not fit together.
RunPlan make_run_plan(const TrainOptions& options, const model::Model& model,
                      const WorldShape& world);
RunPlan make_run_plan(const TrainOptions& options, model::Model&& dies,
                      const WorldShape& world) = delete;

}  // namespace fm::engine
