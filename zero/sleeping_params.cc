#include "zero/sleeping_params.h"

#include <cstring>
#include <memory>
#include <utility>

#include "core/buffer.h"
#include "core/check.h"
#include "offload/stored_numbers.h"

namespace fm::zero {
namespace {

using core::Bytes;
using offload::kPage;

// The end of a narrow slice may be half a page, behind which another rank's slice begins.
class LastPage {
 public:
  LastPage() : data_(core::heap_pages().allocate(kPage)) {
    FM_MACHINE_CHECK(data_ != nullptr, core::ExitCode::kOutOfMemory,
                     "a page of memory is needed; use more ranks");
  }
  LastPage(const LastPage&) = delete;
  LastPage& operator=(const LastPage&) = delete;
  ~LastPage() { core::heap_pages().release(data_, kPage); }
  std::span<std::byte> span() const {
    return {static_cast<std::byte*>(data_), static_cast<std::size_t>(kPage.count())};
  }

 private:
  void* data_;
};

// A slice on its way into its part of a slot.
class Arriving : public comm::Pending::Task {
 public:
  Arriving(offload::SliceStore& store, Bytes at, const comm::Span& whole, comm::Communicator& ranks)
      : ranks_(ranks), whole_(whole) {
    const auto size = static_cast<std::size_t>(whole.bytes().count() / ranks.size());
    slice_ = {static_cast<std::byte*>(whole.data) + size * static_cast<std::size_t>(ranks.rank()),
              size};
    const std::size_t pages = size / kPageBytes * kPageBytes;
    if (pages > 0) moves_[0] = store.read(at, slice_.first(pages));
    if (pages == size) return;
    end_ = slice_.subspan(pages);
    last_ = std::make_unique<LastPage>();
    moves_[1] = store.read(at + Bytes(static_cast<std::int64_t>(pages)), last_->span());
  }

  void wait() override {
    for (offload::Move& move : moves_) move.wait();
    if (last_ != nullptr) std::memcpy(end_.data(), last_->span().data(), end_.size());
    ranks_.all_gather({slice_.data(), whole_.elements / ranks_.size(), whole_.dtype}, whole_)
        .finish();
  }

 private:
  static constexpr auto kPageBytes = static_cast<std::size_t>(kPage.count());

  comm::Communicator& ranks_;
  comm::Span whole_;
  std::span<std::byte> slice_, end_;
  std::unique_ptr<LastPage> last_;  // outlives its move
  offload::Move moves_[2];
};

}  // namespace

SleepingParams::SleepingParams(const Layout& layout, offload::SliceStore& store,
                               std::vector<Place> ring)
    : layout_(layout),
      store_(store),
      plan_(layout, {Role::kParams}),
      ring_(std::move(ring)),
      moves_(ring_.size()),
      slot_(layout.flat_params.size(), 0) {
  FM_CHECK(plan_.total() <= store.bytes(), "parameters sleep in ", plan_.total().count(),
           " bytes, and their store has ", store.bytes().count());
  for (const Place place : ring_) {
    if (!place.empty()) store_.will_use(place);
  }
}

Bytes SleepingParams::newest(int flat_param) const {
  return plan_.at({Role::kParams, flat_param, 0, slot_[static_cast<std::size_t>(flat_param)]});
}

int SleepingParams::next_slot(int flat_param) const {
  const int slots = slots_of(layout_, Role::kParams, flat_param);
  return (slot_[static_cast<std::size_t>(flat_param)] + 1) % slots;
}

SleepingParams::Place SleepingParams::place_of(int flat_param) const {
  layout_.check_trained(flat_param);
  const auto size = static_cast<std::size_t>(plan_.size_of(Role::kParams, flat_param).count());
  return ring_[static_cast<std::size_t>(layout_.ring_place(flat_param))].first(size);
}

offload::Move& SleepingParams::move_of(int flat_param) {
  return moves_[static_cast<std::size_t>(layout_.ring_place(flat_param))];
}

comm::Pending SleepingParams::gather(int flat_param, const comm::Span& whole,
                                     comm::Communicator& ranks) {
  return comm::Pending(std::make_unique<Arriving>(store_, newest(flat_param), whole, ranks));
}

void SleepingParams::fetch(int flat_param) {
  if (!layout_.at(flat_param).sleeps) return;
  offload::Move& move = move_of(flat_param);
  move.wait();
  if (!layout_.has_master(flat_param)) {
    move = store_.read(newest(flat_param), place_of(flat_param));
  }
}

void SleepingParams::wait(int flat_param) {
  if (layout_.at(flat_param).sleeps) move_of(flat_param).wait();
}

void SleepingParams::store(int flat_param) {
  if (!layout_.at(flat_param).sleeps) return;
  const Bytes at = plan_.at({Role::kParams, flat_param, 0, next_slot(flat_param)});
  wait(flat_param);
  move_of(flat_param) = store_.write(at, place_of(flat_param));
  written_.insert(flat_param);
}

void SleepingParams::settle() {
  for (offload::Move& move : moves_) move.wait();
}

void SleepingParams::accept() {
  for (const int flat_param : written_) {
    slot_[static_cast<std::size_t>(flat_param)] = next_slot(flat_param);
  }
  written_.clear();
}

void SleepingParams::reject() { written_.clear(); }

std::shared_ptr<core::TensorSource> SleepingParams::numbers(int flat_param) const {
  return offload::numbers_in(store_, newest(flat_param), layout_.element);
}

}  // namespace fm::zero
