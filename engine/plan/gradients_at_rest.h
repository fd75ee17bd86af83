// How gradients wait for their update, where optimizer state sleeps on a disk.
#pragma once

#include <vector>

#include "engine/options.h"
#include "engine/plan/run_shape.h"
#include "pipeline/gradient_ring.h"
#include "pipeline/validate.h"

namespace fm::engine {

// Gradients leave memory where parameters do, and in layer-major order. By the order of `programs`,
// of all pipe ranks: where every unit's gradient is finished before the ring's places are needed
// again, gradients take them in turn. Then a unit is updated at once where no later number can
// change how (no clipping, no loss scale) and the step can take back all that it changes, because
// that sleeps, too; else the gradient rests on the disk until the norm is known.
pipeline::GradientRing gradient_ring_of(const TrainOptions& options, const RunShape& run,
                                        const pipeline::ProgramRules& rules,
                                        const std::vector<pipeline::Program>& programs);

}  // namespace fm::engine
