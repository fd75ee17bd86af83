#include "zero/slices_up.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/check.h"

namespace fm::zero {

using core::Bytes;

class SlicesUp::OnItsWay : public comm::Pending::Task {
 public:
  OnItsWay(SlicesUp& up, Bytes at, const comm::Span& whole)
      : up_(up), at_(at), whole_(whole), posted_(up.ends_.device.compute().record()) {
    if (up_.without_place_ == 0) place_ = up_.take_place();
    if (place_ < 0) {
      ++up_.without_place_;
    } else {
      read();
    }
  }
  OnItsWay(const OnItsWay&) = delete;
  OnItsWay& operator=(const OnItsWay&) = delete;
  ~OnItsWay() override {
    if (gone_) return;
    if (place_ < 0) {
      --up_.without_place_;
    } else {
      move_ = {};  // nobody writes there any more
      place().taken = false;
    }
  }

  void wait() override {
    if (place_ < 0) {
      place_ = up_.take_place();
      FM_CHECK(place_ >= 0, "slices are waited for in another order than they were asked for");
      --up_.without_place_;
      read();
    }
    move_.wait();
    const auto& [device, store, ranks] = up_.ends_;
    void* const own = static_cast<std::byte*>(whole_.data) + size().count() * ranks.rank();
    core::Queue& in = device.in();
    in.wait(std::move(posted_));  // who read the whole's memory before
    in.copy_in(place().memory.data(), own, size());
    landed_ = place().left = in.record();
    place().taken = false;
    gone_ = true;
    if (ranks.size() == 1) return;
    const core::Work compute{.arena = {}, .queue = &device.compute()};
    const comm::Span slice{own, whole_.elements / ranks.size(), whole_.dtype};
    ranks.all_gather_behind(landed_, slice, whole_).wait(compute);
    landed_ = device.compute().record();
  }
  core::EventPtr landed() override { return landed_; }

 private:
  Bytes size() const { return Bytes(whole_.bytes().count() / up_.ends_.ranks.size()); }
  Place& place() { return up_.places_[static_cast<std::size_t>(place_)]; }
  void read() {
    const auto pages = static_cast<std::size_t>(core::round_up(size(), offload::kPage).count());
    const std::span<std::byte> memory = place().memory.span();
    FM_CHECK(pages <= memory.size(), "a slice of ", pages, " bytes has a place of ", memory.size());
    move_ = up_.ends_.store.read(at_, memory.first(pages));
  }

  SlicesUp& up_;
  Bytes at_;
  comm::Span whole_;
  core::EventPtr posted_, landed_;
  int place_ = -1;
  bool gone_ = false;
  offload::Move move_;
};

SlicesUp::SlicesUp(const Ends& ends, std::vector<core::Buffer> places) : ends_(ends) {
  for (core::Buffer& memory : places) {
    if (!memory.span().empty()) ends_.store.will_use(memory.span());
    places_.push_back({std::move(memory), false, nullptr});
  }
}

SlicesUp::~SlicesUp() {
  for (const Place& place : places_) {
    try {
      if (place.left != nullptr) place.left->finish();
    } catch (...) {  // who waits for what has failed is told
    }
  }
}

int SlicesUp::take_place() {
  const auto free = std::ranges::find(places_, false, &Place::taken);
  if (free == places_.end()) return -1;
  // Those whose bytes have left first: others are waited for.
  auto chosen = free;
  for (auto at = free; at != places_.end(); ++at) {
    if (!at->taken && (at->left == nullptr || at->left->has_come())) {
      chosen = at;
      break;
    }
  }
  if (chosen->left != nullptr) std::exchange(chosen->left, nullptr)->finish();
  chosen->taken = true;
  return static_cast<int>(chosen - places_.begin());
}

comm::Pending SlicesUp::gather(Bytes at, const comm::Span& whole) {
  return comm::Pending(std::make_unique<OnItsWay>(*this, at, whole));
}

}  // namespace fm::zero
