// New weights on their way to every rank that reads them.
#pragma once

#include <map>
#include <set>

#include "engine/step/rank_state.h"

namespace fm::engine {

// Thread:   the rank's thread. Collective: data ranks publish and read in the same order.
// Lifetime: the state outlives it.
class Publications {
 public:
  explicit Publications(RankState& state) : state_(state) {}

  // A flat parameter was updated. What this CPU still updates beside a device is published by its
  // first reader, so that the device does not wait for all of it.
  void publish(int flat_param);
  // Whether wait_for() has something to do.
  bool awaits(int flat_param) const {
    return not_begun_.contains(flat_param) || under_way_.contains(flat_param);
  }
  // For what is queued from now on; nothing to do where it is there.
  void wait_for(int flat_param);
  // All of them are there.
  void settle();

 private:
  RankState& state_;
  std::map<int, comm::Pending> under_way_;  // by flat parameter
  std::set<int> not_begun_;
};

}  // namespace fm::engine
