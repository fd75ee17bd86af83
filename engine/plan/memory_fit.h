// Whether what a plan allocates fits the memory that there is, and what would where it does not.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "engine/plan/run_model.h"
#include "engine/plan/run_plan.h"
#include "machine/limits.h"

namespace fm::engine {

// By world rank.
using RankLimits = std::vector<std::vector<machine::MemoryLimit>>;

// Of hosts that are all alike and filled with ranks one after the other; each rank has a device of
// its own.
RankLimits limits_of_hosts(const std::vector<machine::MemoryLimit>& one_host, int ranks,
                           int ranks_per_host);

// What the ranks that one limit bounds together need of it.
struct MemoryDemand {
  machine::MemoryLimit limit;  // available: the least that one of them read
  int first_rank = 0;
  int ranks = 0;
  core::Bytes largest = {};  // of one rank
  core::Bytes total = {};

  bool fits() const { return total <= limit.available; }
  std::string text() const;  // "2 ranks need 3.0 GB together, up to 1.6 GB each; ..."
};

// Of the limit that has the least to spare; nothing where there is none.
std::optional<MemoryDemand> tightest_demand(const RunPlan& plan, const RankLimits& limits);

// Changes of the options that make a plan fit which does not, the smallest first, each with what
// the same ranks need then: "ZeRO stage 3 (1.2 GB)". Empty: none that is known.
std::vector<std::string> ways_to_fit(const TrainOptions& options, const model::OpenedModel& opened,
                                     const WorldShape& world, const RankLimits& limits);

// `options` with the schedule that --schedule auto means under these limits (auto_schedule.h).
TrainOptions with_fitting_schedule(const TrainOptions& options, const model::OpenedModel& opened,
                                   const WorldShape& world, const RankLimits& limits);

// `options` that save without a copy (engine/plan/save_room.h) where less than a fifth of a host's
// memory, swap not counted, would be left beside it.
TrainOptions with_fitting_saves(const TrainOptions& options, const model::Model& model,
                                const WorldShape& world, const RankLimits& limits);

// Collective: the plan of a run, before anything is allocated. `mine`: of this rank. Throws
// UserError (25), the same on every rank, when the plan does not fit.
RunPlan make_fitting_plan(const TrainOptions& options, const model::OpenedModel& opened,
                          comm::Communicator& world, const std::vector<machine::MemoryLimit>& mine);

}  // namespace fm::engine
