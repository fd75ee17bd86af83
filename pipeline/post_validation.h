// Zero bubble across steps (arXiv 2401.10241, section 4): no pipe rank waits at the end of a step
// for the gradient norm of all of them. It updates by what is known of the norm so far, goes into
// the forwards of the next step, and learns there whether that was right.
//
//   rank 0  ... W3.1 Np sn u.0 u.1 O | L0 F0.0 F0.1 sa0.2 L1 F1.0 F1.1 sa1.2 V rg0.1 B0.1 ...
//   rank 1  ...      W3.2 Np rn u.2 u.3 O | K L0 ra0.2 F0.2 ra1.2            V X0 B0.2 ...
//
// Before V stand forwards and their messages only, and every message before a V has its other end
// before a V: where the update was wrong, all ranks throw them away and begin the step again.
#pragma once

#include <vector>

#include "pipeline/instruction.h"
#include "pipeline/placement.h"

namespace fm::pipeline {

// `expanded`: instructions of units without messages (expand_units), which insert_p2p follows. V
// stands as late as it may: directly before a rank's first backward, but on no rank later than on
// the one before it, from which the norm's way back goes on. "Late" is by simulated time, a block's
// forward and both halves of its backward alike.
std::vector<Program> insert_validation(const std::vector<Program>& expanded,
                                       const Placement& units);

// Finished programs with the norm in parts, for a step that the one behind it validates.
std::vector<Program> with_norm_in_parts(const std::vector<Program>& programs);

}  // namespace fm::pipeline
