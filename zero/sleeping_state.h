// State of flat parameters that sleep in a store, and are awake in a ring of memory for a while.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/tensor_slice.h"
#include "offload/slice_store.h"
#include "offload/stored_numbers.h"
#include "zero/sleep_plan.h"

namespace fm::zero {

// The ring of one array: by place, the memory of whoever is awake there.
struct RingArray {
  Role role = Role::kMoment;
  int moment = 0;
  std::vector<std::span<std::byte>> places = {};
  bool reads = true;  // false: the update writes all of it, whatever was there
};

// A flat parameter is asleep; arriving from fetch() on; awake from wake() on; and leaving from
// store() on, until the next one takes its place or settle().
//
// Invariant: of a place at most one flat parameter is arriving or awake, and its bytes come when
//            those of the one before have left, which nobody waits for. A slot that somebody holds
//            is not written, so that no step waits.
// Thread:    the rank's thread.
// Lifetime:  layout, store and the memory of the ring outlive it.
class SleepingState {
 public:
  // `arrays`: all that sleeps in this store, each of which the update changes.
  SleepingState(const Layout& layout, SleepPlan plan, offload::SliceStore& store,
                std::vector<RingArray> arrays);

  // Whether anything of it sleeps; nothing is to be done for others.
  bool sleeps(int flat_param) const;

  // Begins to read it into its place; or takes the place for who wakes it and writes it there.
  enum class From : std::uint8_t { kStore, kElsewhere };
  void fetch(int flat_param, From from = From::kStore);
  // It is there from here on.
  void wake(int flat_param);
  // Begins to write what is in its place: where there are two slots, beside the old value; where
  // that is held, into another slot.
  void store(int flat_param);
  // Its place is free, and what was in it forgotten.
  void drop(int flat_param);
  // With two slots: the values that were stored since the last call are the ones that count, or
  // never will. With one slot they count when they are stored.
  void accept();
  void refuse();
  // All that left has arrived.
  void settle();

  // Where the value that counts lies.
  core::Bytes newest(Role role, int flat_param, int moment = 0) const;
  // Its numbers in fp32, to be read and written while it sleeps; those of `kept` in the layout.
  std::shared_ptr<core::TensorSource> numbers(Role role, int flat_param, int moment = 0);
  // The same as they are now, whatever steps change, until the source goes, which is the rank's
  // thread's work; only a slot of saves makes that possible. Waits for no move. Another thread may
  // read them, one part at a time in `room`.
  std::shared_ptr<core::TensorSource> held(Role role, int flat_param, int moment,
                                           offload::PartRoom& room);

 private:
  enum class At : std::uint8_t { kAsleep, kArriving, kAwake, kLeaving };
  struct RingPlace {
    int flat_param = -1;
    At at = At::kAsleep;
    std::vector<offload::Move> moves = {};
  };
  struct Versions {
    int newest = 0;
    int written = 0;  // differs from the newest where a new value waits for its acceptance
    int held = 0;     // by these, of which some may be gone
    std::vector<std::weak_ptr<core::TensorSource>> holders = {};
  };

  RingPlace& place_of(int flat_param);
  static void finish(RingPlace& place);
  static bool holds(const Versions& versions, int slot);
  int slot_to_write(const Versions& versions) const;
  std::span<std::byte> memory_of(const RingArray& array, int flat_param) const;

  const Layout& layout_;
  const SleepPlan plan_;
  offload::SliceStore& store_;
  const std::vector<RingArray> arrays_;
  std::vector<RingPlace> places_;
  std::vector<Versions> versions_;  // by flat parameter
};

// Wakes a flat parameter to be looked at; nothing where `state` is null or nothing of it sleeps.
class AwakeForAWhile {
 public:
  AwakeForAWhile(SleepingState* state, int flat_param);
  AwakeForAWhile(const AwakeForAWhile&) = delete;
  AwakeForAWhile& operator=(const AwakeForAWhile&) = delete;
  ~AwakeForAWhile();

 private:
  SleepingState* state_;
  int flat_param_;
};

}  // namespace fm::zero
