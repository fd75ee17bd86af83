// What of a rank's state sleeps where, and what crosses the way to its drives in a step. Pure.
#pragma once

#include <vector>

#include "core/types.h"
#include "engine/plan/run_plan.h"
#include "engine/plan/tier_time.h"

namespace fm::engine {

// Of one rank.
struct TierForecast {
  core::Bytes host = {};         // in host memory beside a device
  core::Bytes nvme = {};         // the size of its files
  core::Bytes second_slot = {};  // of it: so that an update may be taken back
  core::Bytes save_slot = {};    // the same: so that a save reads one while steps write
  core::Bytes ring = {};         // memory of those that are awake
  core::Bytes read = {};         // in a step
  core::Bytes written = {};      // the same
  bool updates_early = false;    // a unit's update does not wait for the global norm
  bool gradients_rest = false;

  bool any() const { return host.count() + nvme.count() > 0; }
};

TierForecast tier_forecast(const RunPlan& plan, int pipe_rank);

// The step's program with what each instruction moves and how long it computes. `flops`: of this
// rank, per second; 0: computing takes no time.
std::vector<TimedInstruction> timed_program(const RunPlan& plan, int pipe_rank, double flops);

}  // namespace fm::engine
