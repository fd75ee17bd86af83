// Where the slices of one rank sleep in a store of bytes: arithmetic only.
#pragma once

#include <initializer_list>
#include <map>
#include <tuple>

#include "zero/layout.h"

namespace fm::zero {

// One array of numbers of a flat parameter. `moment` is 0 for other roles.
struct Sleeper {
  Role role = Role::kMoment;
  int flat_param = 0;
  int moment = 0;
  int slot = 0;  // of those that a new value is written to in turn
};

// The places of those roles of a layout that sleep in kNvme. What one flat parameter reads at once
// lies in one piece, slot by slot.
//
// Invariant: places are whole pages, and no two of them overlap.
class SleepPlan {
 public:
  // For a store that has these roles alone.
  SleepPlan(const Layout& layout, std::initializer_list<Role> roles);

  // Whether there is such an array, in all slots.
  bool has(Role role, int flat_param) const { return places_.contains({role, flat_param, 0, 0}); }
  // BugError where there is none.
  core::Bytes at(const Sleeper& sleeper) const;
  // Of one array, rounded up to whole pages.
  core::Bytes size_of(Role role, int flat_param) const;
  // Of one slot of everything that the update of a flat parameter reads, or writes.
  core::Bytes moved_by(int flat_param, std::initializer_list<Role> roles) const;
  core::Bytes total() const { return total_; }

 private:
  using Key = std::tuple<Role, int, int, int>;
  void add(const Layout& layout, Role role, int flat_param, int slot);

  std::map<Key, core::Bytes> places_;
  std::map<std::pair<Role, int>, core::Bytes> sizes_;
  std::map<Role, int> arrays_;  // of one flat parameter
  core::Bytes total_;
};

// How many slots an array has: where it sleeps, the old value may have to outlive the new one, and
// a save may read one that no step writes meanwhile.
int slots_of(const Layout& layout, Role role, int flat_param);

}  // namespace fm::zero
