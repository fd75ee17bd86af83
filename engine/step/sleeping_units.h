// The state of a unit's flat parameters on its way from and to the store that it sleeps in.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/options.h"
#include "offload/slice_store.h"
#include "zero/sleeping_state.h"

namespace fm::engine {

struct RankState;

// The store of so many bytes of this rank in these folders; null for none.
std::unique_ptr<offload::SliceStore> open_store(const TrainOptions& options,
                                                const std::vector<std::string>& folders,
                                                core::Bytes bytes, int world_rank);

// Of all flat parameters that the update of a unit changes; nothing where nothing of them sleeps.
void fetch_state(RankState& state, int unit);
void wake_state(RankState& state, int unit);
// Forgotten: the step changes nothing.
void drop_state(RankState& state, int unit);
void store_state(RankState& state, int unit);
// The step is over: what it stored beside the old values counts from now on, or never will.
void end_step_of_state(RankState& state, bool accepted);

// The unit's gradient goes to the store, and nothing leaves its place any more: before backward
// writes there. Nothing where it stays in memory.
void rest_gradient(RankState& state, int unit);
void claim_gradient(RankState& state, int unit);
// All that was on its way has arrived.
void settle_state(RankState& state);

// The same where the host updates beside a device (zero/host_updates.h), behind the norm: gradients
// of the unit come down, new parameters go up.
void fetch_gradients(RankState& state, int unit);
void store_params(RankState& state, int unit);

}  // namespace fm::engine
