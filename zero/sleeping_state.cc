#include "zero/sleeping_state.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "offload/stored_numbers.h"

namespace fm::zero {

using core::Bytes;

SleepingState::SleepingState(const Layout& layout, SleepPlan plan, offload::SliceStore& store,
                             std::vector<RingArray> arrays)
    : layout_(layout),
      plan_(std::move(plan)),
      store_(store),
      arrays_(std::move(arrays)),
      places_(static_cast<std::size_t>(layout.ring_places())),
      versions_(layout.flat_params.size()) {
  FM_CHECK(store.bytes() >= plan_.total(), "what sleeps takes ", plan_.total().count(),
           " bytes, and the store has ", store.bytes().count());
  for (const RingArray& array : arrays_) {
    FM_CHECK(array.places.size() == places_.size(), "a ring of ", places_.size(), " places has ",
             array.places.size(), " in one array");
    for (const std::span<std::byte> memory : array.places) {
      if (!memory.empty()) store_.will_use(memory);
    }
  }
}

bool SleepingState::sleeps(int flat_param) const {
  return std::ranges::any_of(
      arrays_, [&](const RingArray& array) { return plan_.has(array.role, flat_param); });
}

SleepingState::RingPlace& SleepingState::place_of(int flat_param) {
  return places_[static_cast<std::size_t>(layout_.ring_place(flat_param))];
}

void SleepingState::finish(RingPlace& place) {
  for (offload::Move& move : place.moves) move.wait();
  place.moves.clear();
}

std::span<std::byte> SleepingState::memory_of(const RingArray& array, int flat_param) const {
  const std::span<std::byte> place =
      array.places[static_cast<std::size_t>(layout_.ring_place(flat_param))];
  const auto size = static_cast<std::size_t>(plan_.size_of(array.role, flat_param).count());
  FM_CHECK(size <= place.size(), "a place of ", place.size(), " bytes is too small for ", size);
  return place.first(size);
}

void SleepingState::fetch(int flat_param, From from) {
  if (!sleeps(flat_param)) return;
  RingPlace& place = place_of(flat_param);
  FM_CHECK(place.at == At::kAsleep || place.at == At::kLeaving, "flat parameter ", flat_param,
           " cannot be fetched over ", place.flat_param);
  place.flat_param = flat_param;
  place.at = At::kArriving;
  if (from == From::kElsewhere) return;
  for (const RingArray& array : arrays_) {
    if (!array.reads || !plan_.has(array.role, flat_param)) continue;
    place.moves.push_back(
        store_.read(newest(array.role, flat_param, array.moment), memory_of(array, flat_param)));
  }
}

void SleepingState::wake(int flat_param) {
  if (!sleeps(flat_param)) return;
  RingPlace& place = place_of(flat_param);
  FM_CHECK(place.flat_param == flat_param && place.at == At::kArriving, "flat parameter ",
           flat_param, " was not fetched");
  finish(place);
  place.at = At::kAwake;
}

bool SleepingState::holds(const Versions& versions, int slot) {
  return slot == versions.held &&
         std::ranges::any_of(versions.holders, [](const auto& at) { return !at.expired(); });
}

// The newest one, where its value need not outlive the new one.
int SleepingState::slot_to_write(const Versions& versions) const {
  const bool in_place = layout_.tier_slots == 1 && !holds(versions, versions.newest);
  if (in_place) return versions.newest;
  const int slots = layout_.tier_slots + layout_.save_slots;
  for (int slot = 0; slot < slots; ++slot) {
    if (slot != versions.newest && !holds(versions, slot)) return slot;
  }
  throw core::BugError(core::concat("a new value has no slot (", slots, " slots)"));
}

void SleepingState::store(int flat_param) {
  if (!sleeps(flat_param)) return;
  RingPlace& place = place_of(flat_param);
  FM_CHECK(place.flat_param == flat_param && place.at == At::kAwake, "flat parameter ", flat_param,
           " is not awake");
  Versions& of_this = versions_[static_cast<std::size_t>(flat_param)];
  of_this.written = slot_to_write(of_this);
  place.at = At::kLeaving;
  for (const RingArray& array : arrays_) {
    if (!plan_.has(array.role, flat_param)) continue;
    const Bytes to = plan_.at({array.role, flat_param, array.moment, of_this.written});
    place.moves.push_back(store_.write(to, memory_of(array, flat_param)));
  }
}

void SleepingState::drop(int flat_param) {
  if (!sleeps(flat_param)) return;
  RingPlace& place = place_of(flat_param);
  FM_CHECK(place.flat_param == flat_param, "flat parameter ", flat_param, " is not in its place");
  finish(place);
  place = {};
}

void SleepingState::accept() {
  for (Versions& each : versions_) each.newest = each.written;
}

void SleepingState::refuse() {
  for (Versions& each : versions_) each.written = each.newest;
}

void SleepingState::settle() {
  for (RingPlace& place : places_) {
    if (place.at != At::kLeaving) continue;
    finish(place);
    place = {};
  }
}

Bytes SleepingState::newest(Role role, int flat_param, int moment) const {
  const int slot = slots_of(layout_, role, flat_param) == 1
                       ? 0
                       : versions_[static_cast<std::size_t>(flat_param)].newest;
  return plan_.at({role, flat_param, moment, slot});
}

std::shared_ptr<core::TensorSource> SleepingState::numbers(Role role, int flat_param, int moment) {
  settle();
  const core::DType element = role == Role::kParams ? layout_.element : core::DType::kF32;
  return offload::numbers_in(store_, newest(role, flat_param, moment), element);
}

std::shared_ptr<core::TensorSource> SleepingState::held(Role role, int flat_param, int moment,
                                                        offload::PartRoom& room) {
  FM_CHECK(slots_of(layout_, role, flat_param) > layout_.tier_slots,
           "what is held has a slot beside those that steps write");
  Versions& of_this = versions_[static_cast<std::size_t>(flat_param)];
  std::erase_if(of_this.holders, [](const auto& at) { return at.expired(); });
  FM_CHECK(of_this.holders.empty() || of_this.held == of_this.newest,
           "another slot of flat parameter ", flat_param, " is held");
  const Bytes at = newest(role, flat_param, moment);
  auto source = offload::held_numbers(store_.hold(at, plan_.size_of(role, flat_param)), at, room);
  of_this.held = of_this.newest;
  of_this.holders.push_back(source);
  return source;
}

AwakeForAWhile::AwakeForAWhile(SleepingState* state, int flat_param)
    : state_(state), flat_param_(flat_param) {
  if (state_ == nullptr) return;
  state_->fetch(flat_param_);
  state_->wake(flat_param_);
}

AwakeForAWhile::~AwakeForAWhile() {
  if (state_ != nullptr) state_->drop(flat_param_);
}

}  // namespace fm::zero
