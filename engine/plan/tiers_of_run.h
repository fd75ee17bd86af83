// Where a run's state sleeps, as its layouts take it: what the user asked for, resolved.
#pragma once

#include "core/shard_plan.h"
#include "engine/options.h"

namespace fm::engine {

struct RunTiers {
  core::Tiers tiers;
  // Flat parameters at once, of those that sleep in kNvme, or places of gradients that come down to
  // the host; 0: none sleeps.
  int awake = 0;
  int slots = 1;  // of a slice there
};

// `params_sleep`: of RunShape. Throws UserError where state cannot sleep there.
RunTiers tiers_of_run(const TrainOptions& options, bool params_sleep);

}  // namespace fm::engine
