#include "core/crossing.h"

#include <algorithm>

namespace fm::core {
namespace {

// Piece number `index` of `bytes`.
struct Portion {
  Portion(std::int64_t index, Bytes place, Bytes bytes)
      : at(place * index),
        size(std::min(place, bytes - at)),
        turn(static_cast<std::size_t>(index % 2)) {}

  std::size_t count() const { return static_cast<std::size_t>(size.count()); }

  Bytes at, size;
  std::size_t turn;
};

}  // namespace

Crossing::Crossing(Queue& queue, MemorySource& page_locked, Bytes place)
    : queue_(queue),
      place_(place),
      places_{Buffer(ledger_, Account::kSaves, place, page_locked),
              Buffer(ledger_, Account::kSaves, place, page_locked)} {}

Crossing::~Crossing() {
  try {
    queue_.finish();  // a copy that nobody waited for, as something had failed
  } catch (...) {     // who waits for what has failed is told
  }
}

void Crossing::out(const void* device, Bytes bytes,
                   const std::function<void(std::span<const std::byte> piece)>& take) {
  const std::int64_t pieces = ceil_div(bytes.count(), place_.count());
  std::array<EventPtr, 2> arrived;
  const auto ask = [&](std::int64_t index) {
    if (index == pieces) return;
    const Portion portion(index, place_, bytes);
    queue_.copy_out(static_cast<const std::byte*>(device) + portion.at.count(),
                    places_[portion.turn].data(), portion.size);
    arrived[portion.turn] = queue_.record();
  };
  ask(0);
  for (std::int64_t index = 0; index < pieces; ++index) {
    ask(index + 1);
    const Portion portion(index, place_, bytes);
    arrived[portion.turn]->finish();
    take(places_[portion.turn].span().first(portion.count()));
  }
}

void Crossing::in(void* device, Bytes bytes,
                  const std::function<void(std::span<std::byte> piece)>& fill) {
  const std::int64_t pieces = ceil_div(bytes.count(), place_.count());
  std::array<EventPtr, 2> left;
  for (std::int64_t index = 0; index < pieces; ++index) {
    const Portion portion(index, place_, bytes);
    if (left[portion.turn] != nullptr) left[portion.turn]->finish();
    fill(places_[portion.turn].span().first(portion.count()));
    queue_.copy_in(places_[portion.turn].data(),
                   static_cast<std::byte*>(device) + portion.at.count(), portion.size);
    left[portion.turn] = queue_.record();
  }
  queue_.finish();
}

}  // namespace fm::core
