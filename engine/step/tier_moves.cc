#include "engine/step/tier_moves.h"

#include "core/text.h"

namespace fm::engine {
namespace {

using Totals = offload::SliceStore::Totals;

std::vector<const offload::SliceStore*> stores_of(const RankState& state) {
  std::vector<const offload::SliceStore*> found;
  for (const auto* const each : {&state.store, &state.params_store}) {
    if (*each != nullptr) found.push_back(each->get());
  }
  return found;
}

}  // namespace

std::optional<Totals> moved_so_far(const RankState& state) {
  std::optional<Totals> sum;
  for (const offload::SliceStore* const store : stores_of(state)) {
    const Totals totals = store->totals();
    if (!sum) sum.emplace();
    sum->read += totals.read;
    sum->written += totals.written;
    sum->waited_seconds += totals.waited_seconds;
  }
  return sum;
}

std::optional<Totals> moved_since(const std::optional<Totals>& before, const RankState& state) {
  std::optional<Totals> moved = moved_so_far(state);
  if (!moved || !before) return moved;
  moved->read -= before->read;
  moved->written -= before->written;
  moved->waited_seconds -= before->waited_seconds;
  return moved;
}

std::string stores_text(const RankState& state) {
  core::Bytes bytes;
  std::string how;
  for (const offload::SliceStore* const store : stores_of(state)) {
    bytes += store->bytes();
    how = store->describe();
  }
  return how.empty() ? "" : core::concat(core::human(bytes), " of each rank by ", how);
}

}  // namespace fm::engine
