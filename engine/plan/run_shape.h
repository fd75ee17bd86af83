// How many ranks a run has on each axis, what each of them reads of a step, and how ZeRO cuts its
// state: the first stage of a plan (engine/plan/run_plan.h).
#pragma once

#include <vector>

#include "comm/communicator.h"
#include "core/mesh.h"
#include "core/shard_plan.h"
#include "core/types.h"
#include "engine/options.h"
#include "engine/plan/batch_triad.h"
#include "engine/plan/between_hosts.h"
#include "model/unit.h"

namespace fm::engine {

// The ranks of a run, whether the data ranks of every pipe rank run on one host, where they have
// their parameters in memory that they share, and how many threads each rank computes with.
struct WorldShape {
  int ranks = 1;
  core::ParamSharing sharing = core::ParamSharing::kPrivate;
  int threads = 1;
  std::vector<int> host_of = {};  // by rank; empty: one host for all that share, else one for each
};
// `threads`: those of this process.
WorldShape shape_of(const TrainOptions& options, const comm::Communicator& world);

// Throws UserError for numbers of ranks that do not fit together.
core::Mesh make_mesh(const TrainOptions& options, int world_size);

// By rank, as --ranks_per_host says; empty where ranks share no memory of a host.
std::vector<int> planned_hosts(const TrainOptions& options, int ranks);

struct RunShape {
  core::Mesh mesh;
  ResolvedBatch batch;
  core::BatchShape shape;     // of one micro-batch on a rank
  core::ShardPlan sharding;   // ZeRO
  bool overlap = false;       // of messages between hosts with what units compute
  int threads = 1;            // of a rank: of its core::Work, for which scratch is made
  bool params_sleep = false;  // on disks, but for the first ones of a rank
  BetweenHosts between = {};

  int micros() const { return static_cast<int>(batch.accumulation); }
};

// How the run's schedule goes through the units of a chunk.
pipeline::UnitOrder unit_order_of(const TrainOptions& options);

// Throws UserError for sizes that do not fit together.
RunShape shape_run(const TrainOptions& options, const model::Model& model, const WorldShape& world);

}  // namespace fm::engine
