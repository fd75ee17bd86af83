// Moves gathers ahead, so that a unit's weights travel while the units before it compute.
#pragma once

#include <vector>

#include "core/types.h"
#include "pipeline/placement.h"

namespace fm::zero {

// Moves each gather ahead of uses of other gathered units, as long as what is gathered for uses
// behind the place it moves to has at most `window` elements. Gathers keep their order; a unit is
// gathered again only after its release. `elements`: of each unit.
pipeline::Program insert_prefetch(const pipeline::Program& program,
                                  const pipeline::Placement& units,
                                  const std::vector<core::Elements>& elements,
                                  core::Elements window);

}  // namespace fm::zero
