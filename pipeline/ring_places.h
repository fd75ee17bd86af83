// State that sleeps is awake in a ring of places, each of which holds one flat parameter at a time.
#pragma once

#include <vector>

#include "pipeline/placement.h"

namespace fm::pipeline {

// The places that the update of a unit needs, in a ring of so many: flat parameters take them in
// turn, in the order of zero/layout.h. The head has a second one for its end of a tied matrix,
// where the embedding is on another pipe rank.
std::vector<int> ring_places(const Placement& units, int unit, int ring);

// The least that a ring needs: two, because a unit may need that many.
inline constexpr int kLeastRing = 2;

}  // namespace fm::pipeline
