#include "pipeline/gradient_ring.h"

#include <map>
#include <vector>

namespace fm::pipeline {

namespace {

// By unit.
std::map<int, int> reductions_of(const Program& program) {
  std::map<int, int> out;
  for (const Instruction& at : program) {
    if (at.op == Op::kReduce) ++out[at.unit];
  }
  return out;
}

}  // namespace

Program insert_rest(const Program& program, const GradientRing& ring, const Placement& units) {
  std::map<int, int> left = reductions_of(program);
  Program out;
  for (const Instruction& at : program) {
    if (at.op == Op::kUpdate && updates_early(ring, units, at.unit)) continue;
    out.push_back(at);
    if (at.op != Op::kReduce || --left[at.unit] > 0) continue;
    if (updates_early(ring, units, at.unit)) {
      out.push_back({Op::kUpdate, -1, at.unit});
      if (!takes_from_slot(ring, units, at.unit)) continue;
      out.erase(out.end() - 3);  // the Release (may_take_from_slots)
      out.push_back({Op::kRelease, -1, at.unit});
    } else if (rests(ring, units, at.unit)) {
      out.push_back({Op::kRest, -1, at.unit});
    }
  }
  return out;
}

bool may_take_from_slots(const Program& program, const Placement& units) {
  std::map<int, int> left = reductions_of(program);
  for (std::size_t at = 1; at < program.size(); ++at) {
    const int unit = program[at].unit;
    if (program[at].op != Op::kReduce || --left[unit] > 0) continue;
    if (units.is_embedding(unit)) continue;
    if (program[at - 1] != Instruction{Op::kRelease, -1, unit}) return false;
  }
  return units.has_backward(units.head());
}

bool fits_ring(const Program& program, int places, const Placement& units) {
  const GradientRing ring{.places = places};
  std::map<int, int> left = reductions_of(program);
  std::vector<int> owner(static_cast<std::size_t>(places), -1);
  for (const Instruction& at : program) {
    const bool writes = row_of(at.op).writes_gradient;
    if (!writes && at.op != Op::kReduce) continue;
    const int unit = units.unit_of(at);
    if (!has_place_in_ring(ring, units, unit)) continue;
    int& here = owner[static_cast<std::size_t>(units.index_on_rank(unit) % places)];
    if (writes && here >= 0 && here != unit) return false;
    if (writes) here = unit;
    if (at.op == Op::kReduce && --left[unit] == 0) here = -1;
  }
  return true;
}

}  // namespace fm::pipeline
