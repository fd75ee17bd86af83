// Everything about a run that follows from options, model and ranks alone: mesh, batch, programs of
// every pipe rank (checked), and what they need. Pure; needs no weights and no ranks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/options.h"
#include "engine/plan/pipe_schedule.h"
#include "engine/plan/placed_units.h"
#include "engine/plan/run_programs.h"
#include "engine/plan/run_shape.h"
#include "model/unit.h"
#include "pipeline/account.h"
#include "zero/layout.h"

namespace fm::engine {

struct MemoryForecast {  // bytes of one rank, owned for the whole run
  core::Bytes params, grads, optimizer, slots, scratch, activations;
  core::Bytes tables;  // of RoPE, which no account of the ledger has
  core::Bytes saves;   // what a checkpoint is written from; beside a device in `host`
  core::Bytes drives;  // sums of pages and copies of blocks of what sleeps there, in no ledger
  core::Bytes host;    // beside a device, in no total
  core::Bytes total() const {
    return params + grads + optimizer + slots + scratch + activations + tables + saves + drives;
  }
};

// The values of the stages of make_run_plan, side by side.
//
// Lifetime: the model that it was made of outlives it.
struct RunPlan : RunShape, UnitNeeds, RunSchedule, RunPrograms {
  zero::LayoutInput state;    // what every rank's layout follows from
  OffloadOptions offload;     // how drives are read and written
  bool copies_saves = false;  // a checkpoint is written while the next steps run
  bool saves_apart = false;   // the copy is not in the memory that the forecast is about
  core::Bytes sums;           // where those of cards arrive in canonical order (comm/nccl/nccl.h)

  const pipeline::Placement& units() const { return rules.units; }
  // The larger of both programs' needs, pool by pool: what a rank allocates.
  pipeline::PoolSizes pools(int pipe_rank) const;
  zero::Layout layout(int pipe_rank, int dp_rank) const;
  // By pipe rank: pipeline::peak_activations of the chunks that have a backward.
  std::vector<double> kept_micros() const { return engine::kept_micros(*this, units()); }
  MemoryForecast memory(int pipe_rank) const;
  // Of the pool of hidden states, each. On a device all begin at addresses that products take for
  // equally aligned, whichever is lent.
  core::Bytes hidden_slot() const;
  // That a rank sends in one step, by picture of the instruction ("g", "R", "p", "sa" ...); those
  // of computing ones are of ranks that compute together.
  std::map<std::string, core::Bytes> wire_bytes(int pipe_rank) const;
  // Model FLOPs of one step over all ranks (forward x 3, of units without backward x 1;
  // recomputation not counted).
  double flops_per_step() const;
  // What all ranks could compute in the time of a step: those with fewer micro-batches wait.
  double flops_in_step_time() const {
    const double slots = static_cast<double>(batch.accumulation) * mesh.data;
    return flops_per_step() * (slots / static_cast<double>(batch.slots()));
  }
  double forward_flops_per_step() const;
  double forwards_per_step() const {  // of a unit, over all ranks
    return static_cast<double>(batch.slots()) * mesh.sequence * mesh.model;
  }
  std::int64_t tokens_per_step() const { return batch.train_batch * shape.row(); }
};

// Throws UserError for sizes that do not fit together.
RunPlan make_run_plan(const TrainOptions& options, const model::Model& model,
                      const WorldShape& world);
RunPlan make_run_plan(const TrainOptions& options, model::Model&& dies,
                      const WorldShape& world) = delete;

}  // namespace fm::engine
