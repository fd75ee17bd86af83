// Zero bubble across steps (arXiv 2401.10241, section 4): no pipe rank waits at the end of a step
// for the global gradient norm. It updates speculatively with the part of the norm that it knows,
// starts the forwards of the next step, and validates the update there.
//
//   rank 0  ... W3.1 Np sn u.0 u.1 O | L0 F0.0 F0.1 sa0.2 L1 F1.0 F1.1 sa1.2 V rg0.1 B0.1 ...
//   rank 1  ...      W3.2 Np rn u.2 u.3 O | K L0 ra0.2 F0.2 ra1.2            V X0 B0.2 ...
//
// Only forwards and their messages come before V, and both ends of a message are on the same side
// of V: where the update was wrong, all ranks discard these forwards and begin the step again.
#pragma once

#include <vector>

#include "pipeline/instruction.h"
#include "pipeline/placement.h"

namespace fm::pipeline {

// `expanded`: instructions of units without messages (expand_units); insert_p2p follows. V is
// inserted as late as possible: directly before a rank's first backward, but on no rank later than
// on the previous one, because the norm returns along the ranks. "Late" is by simulated time, in
// which a block's forward and both halves of its backward take equal times.
std::vector<Program> insert_validation(const std::vector<Program>& expanded,
                                       const Placement& units);

// Finished programs with the norm in parts, for a step that the next step validates.
std::vector<Program> with_norm_in_parts(const std::vector<Program>& programs);

}  // namespace fm::pipeline
