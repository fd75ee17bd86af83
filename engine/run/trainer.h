// A training run from options to exit code.
#pragma once

#include "comm/communicator.h"
#include "engine/options.h"
#include "engine/run/signals.h"
#include "engine/shown/run_context.h"
#include "model/opened_model.h"

namespace fm::engine {

// Collective over `world`. `opened`: of the same options (open_run_model). Returns the exit code:
// 0, or 75 after SIGTERM with the state saved. Throws core::Error.
int train(const TrainOptions& options, const model::OpenedModel& opened, comm::Communicator& world,
          const RunContext& context);

}  // namespace fm::engine
