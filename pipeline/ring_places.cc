#include "pipeline/ring_places.h"

namespace fm::pipeline {

std::vector<int> ring_places(const Placement& units, int unit, int ring) {
  std::vector<int> out = {units.index_on_rank(unit) % ring};
  const bool second = unit == units.head() && units.tied && !units.one_tied_gradient &&
                      !units.both_ends_on_one_rank();
  if (!second) return out;
  const auto behind = static_cast<int>(units.units_of(units.owner_of(unit)).size());
  out.push_back(behind % ring);
  return out;
}

}  // namespace fm::pipeline
