#include "engine/step/sleeping_units.h"

#include <chrono>
#include <filesystem>

#include "engine/step/rank_state.h"
#include "offload/disk_store.h"

namespace fm::engine {
namespace {

template <class Body>
void for_sleeping(RankState& state, int unit, const Body& body) {
  if (!state.model.trains(unit)) return;
  for (zero::SleepingState* const sleeping : {state.sleeping.get(), state.params.asleep()}) {
    for (const int flat_param : {state.own_flat_param(unit), state.tied_end(unit)}) {
      if (sleeping != nullptr && flat_param >= 0) body(*sleeping, flat_param);
    }
  }
}

template <class Body>
void for_updated_on_host(RankState& state, int unit, const Body& body) {
  if (!state.on_host) return;
  for (const int flat_param : {state.own_flat_param(unit), state.tied_end(unit)}) {
    if (flat_param >= 0 && state.on_host->has(flat_param)) body(*state.on_host, flat_param);
  }
}

}  // namespace

std::unique_ptr<offload::SliceStore> open_store(const TrainOptions& options,
                                                const std::vector<std::string>& folders,
                                                core::Bytes bytes, int world_rank) {
  if (bytes.count() == 0) return nullptr;
  offload::DiskOptions disk = options.offload.disk;
  disk.limit = std::chrono::milliseconds(options.timeout_ms);
  if (disk.method == offload::DiskOptions::Method::kMemory) return offload::in_host_memory(bytes);
  return offload::open_disk({.folders = {folders.begin(), folders.end()},
                             .world_rank = world_rank,
                             .run = std::filesystem::path(options.output_dir).filename().string()},
                            disk, bytes);
}

void rest_gradient(RankState& state, int unit) {
  if (state.resting == nullptr) return;
  state.resting->rest(state.own_flat_param(unit));
  if (!state.writes_behind) state.resting->settle();
}

void claim_gradient(RankState& state, int unit) {
  if (state.resting != nullptr) state.resting->claim(state.own_flat_param(unit));
}

void end_step_of_state(RankState& state, bool accepted) {
  for (zero::SleepingState* const sleeping : {state.sleeping.get(), state.params.asleep()}) {
    if (sleeping == nullptr) continue;
    accepted ? sleeping->accept() : sleeping->refuse();
  }
}

void fetch_state(RankState& state, int unit) {
  if (state.resting != nullptr && state.model.trains(unit)) {
    state.resting->fetch(state.own_flat_param(unit));
  }
  const bool in_slot =
      pipeline::takes_from_slot(state.plan.rules.gradients, state.plan.units(), unit);
  for_sleeping(state, unit, [&](zero::SleepingState& sleeping, int flat_param) {
    using enum zero::SleepingState::From;
    sleeping.fetch(flat_param, in_slot && &sleeping == state.params.asleep() ? kElsewhere : kStore);
  });
}

void wake_state(RankState& state, int unit) {
  if (state.resting != nullptr && state.model.trains(unit)) {
    state.resting->wake(state.own_flat_param(unit));
  }
  for_sleeping(state, unit,
               [](zero::SleepingState& sleeping, int flat_param) { sleeping.wake(flat_param); });
}

void drop_state(RankState& state, int unit) {
  for_sleeping(state, unit,
               [](zero::SleepingState& sleeping, int flat_param) { sleeping.drop(flat_param); });
}

void store_state(RankState& state, int unit) {
  for_sleeping(state, unit,
               [](zero::SleepingState& sleeping, int flat_param) { sleeping.store(flat_param); });
  if (!state.writes_behind) settle_state(state);
}

void settle_state(RankState& state) {
  for (zero::SleepingState* const sleeping : {state.sleeping.get(), state.params.asleep()}) {
    if (sleeping != nullptr) sleeping->settle();
  }
  if (state.resting != nullptr) state.resting->settle();
}

void fetch_gradients(RankState& state, int unit) {
  for_updated_on_host(state, unit, [&](zero::HostUpdates& updates, int flat_param) {
    updates.fetch(flat_param, state.grads);
  });
}

void store_params(RankState& state, int unit) {
  for_updated_on_host(state, unit, [&](zero::HostUpdates& updates, int flat_param) {
    updates.store(flat_param, state.params);
  });
  for_updated_on_host(state, unit, [&](zero::HostUpdates& updates, int flat_param) {
    const bool sleeps = state.sleeping != nullptr || state.layout.at(flat_param).sleeps;
    if (sleeps) updates.settle(flat_param);  // a disk reads next what was updated
  });
}

}  // namespace fm::engine
