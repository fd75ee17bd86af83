// How the gradients of a step wait for their update, where optimizer state sleeps on a disk.
#pragma once

#include "pipeline/instruction.h"
#include "pipeline/placement.h"

namespace fm::pipeline {

// Where a unit's gradient is finished before many others begin, all of them take a few places in
// turn: by the unit's index on its rank. A place is taken by the first instruction that writes the
// gradient, and free again when it rests elsewhere or its unit is updated.
struct GradientRing {
  int places = 0;      // 0: every gradient has a place of its own until the end of the step
  bool rests = false;  // behind its last reduction a gradient is written to its tier (Rest)
  // A unit is updated behind its last reduction, before the norm of the step is known: what it
  // changes has two slots, and the step takes the old ones again where it is not accepted.
  bool updates_early = false;
  // What an early update changes of all but the embedding is in the slot where their weights are
  // whole, which is released behind it: nothing is read for it again.
  bool takes_from_slots = false;

  bool operator==(const GradientRing&) const = default;
};

// The embedding's gradient of a tied matrix has another end to wait for, so it stays in memory; so
// does the head's where its end of the matrix is updated, too, because the other is elsewhere.
inline bool waits_for_other_end(const Placement& units, int unit) {
  const bool head = unit == units.head() && !units.both_ends_on_one_rank();
  return units.tied && (unit == 0 || head);
}
inline bool has_place_in_ring(const GradientRing& ring, const Placement& units, int unit) {
  return ring.places > 0 && !waits_for_other_end(units, unit);
}
inline bool rests(const GradientRing& ring, const Placement& units, int unit) {
  return ring.rests && !waits_for_other_end(units, unit);
}
inline bool updates_early(const GradientRing& ring, const Placement& units, int unit) {
  return ring.updates_early && !waits_for_other_end(units, unit);
}
inline bool takes_from_slot(const GradientRing& ring, const Placement& units, int unit) {
  return ring.takes_from_slots && !units.is_embedding(unit) && updates_early(ring, units, unit);
}

// Adds Rest, or moves Update, behind the last Reduce of the units that rest or are updated early;
// behind that goes the Release of units that are in their slots until then.
Program insert_rest(const Program& program, const GradientRing& ring, const Placement& units);

// Whether all blocks and the head are released directly before their last Reduce.
bool may_take_from_slots(const Program& program, const Placement& units);

// Whether no gradient is begun while the place that it takes is another's.
bool fits_ring(const Program& program, int places, const Placement& units);

}  // namespace fm::pipeline
