// What a rank has moved from and to its stores of sleeping state, for people.
#pragma once

#include <optional>
#include <string>

#include "engine/step/rank_state.h"

namespace fm::engine {

// Since the start; nothing where nothing sleeps.
std::optional<offload::SliceStore::Totals> moved_so_far(const RankState& state);

// Between two of these.
std::optional<offload::SliceStore::Totals> moved_since(
    const std::optional<offload::SliceStore::Totals>& before, const RankState& state);

// "6.1 GB of each rank by io_uring, O_DIRECT, 2 drives, 8 x 1 MiB under way on each"; "" where
// nothing sleeps. `state` is one rank's; the sizes of others differ by little.
std::string stores_text(const RankState& state);

}  // namespace fm::engine
