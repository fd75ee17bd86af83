#include "zero/sleep_plan.h"

#include <algorithm>

#include "core/check.h"
#include "offload/slice_store.h"

namespace fm::zero {
namespace {

using core::Bytes;
using core::DType;

// What this rank keeps of one array; 0: nothing, because another flat parameter or nobody has it.
Bytes kept_bytes(const Layout& layout, Role role, int flat_param) {
  const FlatParam& at = layout.at(flat_param);
  const bool trained = !layout.is_frozen(flat_param);
  if (role == Role::kParams) {
    return core::bytes_of(at.sleeps ? at.params.count : core::Elements(0), layout.element);
  }
  if (!trained || (role == Role::kMaster && !layout.has_master(flat_param))) return {};
  if (role == Role::kGrads && !at.in_gradient_ring) return {};
  return core::bytes_of(at.optimizer.count, DType::kF32);
}

int arrays_of(const Layout& layout, Role role) {
  return role == Role::kMoment ? layout.moments : 1;
}

}  // namespace

int slots_of(const Layout& layout, Role role, int flat_param) {
  const bool changes = role != Role::kGrads && !layout.is_frozen(flat_param);
  const bool saved = role != Role::kParams || !layout.has_master(flat_param);
  return changes ? layout.tier_slots + (saved ? layout.save_slots : 0) : 1;
}

SleepPlan::SleepPlan(const Layout& layout, std::initializer_list<Role> roles) {
  for (const Role role : roles) arrays_[role] = arrays_of(layout, role);
  for (int flat_param = 0; flat_param < layout.count(); ++flat_param) {
    for (int slot = 0; slot < layout.tier_slots + layout.save_slots; ++slot) {
      for (const Role role : roles) add(layout, role, flat_param, slot);
    }
  }
}

void SleepPlan::add(const Layout& layout, Role role, int flat_param, int slot) {
  const Bytes kept = kept_bytes(layout, role, flat_param);
  const bool here = layout.sleeps(role) && slot < slots_of(layout, role, flat_param);
  if (!here || kept.count() == 0) return;
  const Bytes size = core::round_up(kept, offload::kPage);
  sizes_[{role, flat_param}] = size;
  for (int array = 0; array < arrays_of(layout, role); ++array) {
    places_[{role, flat_param, array, slot}] = total_;
    total_ += size;
  }
}

Bytes SleepPlan::at(const Sleeper& sleeper) const {
  const auto at = places_.find({sleeper.role, sleeper.flat_param, sleeper.moment, sleeper.slot});
  FM_CHECK(at != places_.end(), "role ", static_cast<int>(sleeper.role), " of flat parameter ",
           sleeper.flat_param, " has no array ", sleeper.moment, " in slot ", sleeper.slot,
           " that sleeps");
  return at->second;
}

Bytes SleepPlan::size_of(Role role, int flat_param) const {
  const auto at = sizes_.find({role, flat_param});
  return at == sizes_.end() ? Bytes(0) : at->second;
}

Bytes SleepPlan::moved_by(int flat_param, std::initializer_list<Role> roles) const {
  Bytes out;
  for (const Role role : roles) {
    const auto arrays = arrays_.find(role);
    if (arrays != arrays_.end()) out += size_of(role, flat_param) * arrays->second;
  }
  return out;
}

}  // namespace fm::zero
