#include "pipeline/ring_places.h"

namespace fm::pipeline {
namespace {

// Whether the head updates its end of a tied matrix, because the embedding is elsewhere.
bool has_second_end(const Placement& units, int unit) {
  return unit == units.head() && units.tied && !units.one_tied_gradient &&
         !units.both_ends_on_one_rank();
}

// Of a rank.
struct Ends {
  int embedding = 0;  // 1: it is here
  int head = 0;       // the same, of what has the head's matrix
  int count() const { return embedding + head; }
};

Ends ends_on(const Placement& units, int rank) {
  const bool head = units.has_head(rank) && (!units.tied || has_second_end(units, units.head()));
  return {.embedding = units.has_embedding(rank) ? 1 : 0, .head = head ? 1 : 0};
}

}  // namespace

std::vector<int> ring_places(const Placement& units, int unit, Ring ring) {
  const int rank = units.owner_of(unit);
  const int index = units.index_on_rank(unit);
  const bool second = has_second_end(units, unit);
  const Ends ends = ends_on(units, rank);
  if (ring.end_blocks <= 1 || ends.count() == 0 || ring.awake <= ends.count()) {
    if (!second) return {index % ring.awake};
    const auto behind = static_cast<int>(units.units_of(rank).size());
    return {index % ring.awake, behind % ring.awake};
  }
  if (unit == 0) return {0};
  const bool is_end = unit == units.head() && ends.head > 0;
  if (is_end && !second) return {ends.embedding};
  const int smaller = (ring.awake - ends.count()) * ring.end_blocks;
  const int place = ends.count() + (index - ends.embedding) % smaller;
  if (!second) return {place};
  return {place, ends.embedding};
}

}  // namespace fm::pipeline
