// What one rank owns during a run: communicators, stores, pools.
#pragma once

#include <memory>
#include <optional>

#include "checkpoint/lineage.h"
#include "checkpoint/output_fence.h"
#include "comm/communicator.h"
#include "comm/words.h"
#include "core/crossing.h"
#include "core/device.h"
#include "core/sequence_part.h"
#include "core/work.h"
#include "engine/plan/run_plan.h"
#include "engine/step/buffer_pool.h"
#include "engine/step/rank_device.h"
#include "offload/slice_store.h"
#include "text/data/batch_stream.h"
#include "zero/global_norm.h"
#include "zero/grad_store.h"
#include "zero/host_updates.h"
#include "zero/optimizer_shard.h"
#include "zero/param_store.h"
#include "zero/reduce_tied.h"
#include "zero/resting_gradients.h"
#include "zero/sleeping_state.h"

namespace fm::engine {

// Invariant: sizes of all pools are the plan's.
// Thread:    the rank's thread; construction is collective over the world.
// Lifetime:  options, plan, model, world, ledger and device outlive it.
struct RankState {
  RankState(const TrainOptions& options, const RunPlan& plan, const model::Model& model,
            comm::Communicator& world, core::Ledger& ledger, const RankDevice& on = {});
  RankState(const RankState&) = delete;
  RankState& operator=(const RankState&) = delete;

  const RunPlan& plan;
  const model::Model& model;
  core::Ledger& ledger;
  core::Device* device;      // that computes; null: this CPU
  core::Ledger host_ledger;  // of memory beside a device
  core::HugePages host_pages;
  std::optional<zero::HostMemory> host_memory;
  std::unique_ptr<core::Crossing> crossing;  // to the device; null: this CPU computes
  core::RankMemory memory;                   // of what computes
  comm::Communicator& world;
  core::Mesh::Position at;
  std::unique_ptr<comm::Communicator> dp;  // all that ZeRO cuts units for
  // The same, where gradients or gathered weights are narrow between hosts, and those of this host,
  // where they keep a second copy; null: that is not so.
  std::unique_ptr<comm::Communicator> dp_gradients, dp_weights, dp_near;
  std::unique_ptr<comm::Communicator> pipe;
  std::unique_ptr<comm::Communicator> tensor, ulysses, ring;  // null: one rank alone
  // The same groups for counts, losses, norms and signals.
  struct {
    comm::Words data, pipe, tensor;
  } words;
  pipeline::PoolSizes pools;
  zero::Layout layout;
  std::unique_ptr<offload::SliceStore> params_store;  // where parameters sleep; null: nowhere
  zero::ParamStore params;
  zero::GradStore grads;
  zero::OptimizerShard optimizer;
  std::optional<zero::HostUpdates> on_host;  // null: the device updates all
  // What sleeps outside of memory; null: nothing does.
  std::unique_ptr<offload::SliceStore> store;
  std::unique_ptr<zero::SleepingState> sleeping;
  std::unique_ptr<zero::RestingGradients> resting;
  bool writes_behind;  // while the step goes on
  zero::TiedReduction tied;
  zero::GlobalNorm norm;
  core::Work work;  // in scratch
  BufferPool gather_slots;
  BufferPool hidden;
  BufferPool kept;
  BufferPool parked;
  BufferPool between;  // passes over the tiles of the head
  core::Buffer scratch;
  checkpoint::Lineage lineage = {};  // of the checkpoints of this run; rank 0's
  std::int64_t save_ms = 0;          // of the checkpoint that was resumed; rank 0's, 0: not known
  checkpoint::OutputFence fence = {};

  // Flat parameters of a unit on this rank: its own; that of its frozen parameters (-1: it has
  // none); the one that the head of a tied model uses beside it (-1 for other units), and the same
  // when it is the head's alone.
  int own_flat_param(int unit) const { return plan.units().index_on_rank(unit); }
  int frozen_flat_param(int unit) const { return layout.at(own_flat_param(unit)).frozen; }
  int tied_flat_param(int unit) const;
  int tied_end(int unit) const;
  // What the host has updated is there for what reads it from now on; -1: nothing.
  void arrive(int flat_param) {
    if (on_host && flat_param >= 0) on_host->arrive(flat_param);
  }
  model::Peers peers() const { return {tensor.get(), ulysses.get(), ring.get()}; }
  // What the rank has of every row.
  core::TokenRuns token_runs() const {
    return core::runs_of_rank(plan.shape.row(), plan.shape.split, at.sp_rank);
  }

 private:
  void open_tiers(const TrainOptions& options);
};

// What the rank reads of the rows of a step.
data::BatchStream::Layout stream_layout(const RankState& state, const TrainOptions& options);

}  // namespace fm::engine
