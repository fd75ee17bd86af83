// State that sleeps is awake in a ring of places, each of which holds one flat parameter at a time.
#pragma once

#include <vector>

#include "pipeline/placement.h"

namespace fm::pipeline {

// Where the embedding or the head, the ends, take as much memory as several blocks, each end has a
// place of its own, and each other place is that many smaller ones, which blocks take in turn.
struct Ring {
  int awake = 0;       // places for the largest unit
  int end_blocks = 1;  // blocks that have room in such a place
};

// The places that the update of a unit needs: flat parameters take them in turn, in the order of
// zero/layout.h. The head has a second one for its end of a tied matrix, where the embedding is on
// another pipe rank.
std::vector<int> ring_places(const Placement& units, int unit, Ring ring);

// The least that a ring needs: two, because a unit may need that many.
inline constexpr int kLeastRing = 2;

}  // namespace fm::pipeline
