#include "zero/gather_from.h"

#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "core/buffer.h"
#include "core/check.h"

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
class FromStore : public comm::Pending::Task {
 public:
  FromStore(offload::SliceStore& store, Bytes at, const comm::Span& whole,
            comm::Communicator& ranks)
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

// A slice that is the whole, on its way up.
class GoingUp : public comm::Pending::Task {
 public:
  explicit GoingUp(core::EventPtr landed) : landed_(std::move(landed)) {}
  void wait() override {}
  core::EventPtr landed() override { return landed_; }

 private:
  core::EventPtr landed_;
};

}  // namespace

comm::Pending gather_up(core::Device& device, const void* slice, const comm::Span& whole,
                        comm::Communicator& ranks) {
  const Bytes size(whole.bytes().count() / ranks.size());
  void* const own = static_cast<std::byte*>(whole.data) + size.count() * ranks.rank();
  core::Queue& in = device.in();
  in.wait(device.compute().record());  // who read the slot before, and who updates the slice
  in.copy_in(slice, own, size);
  core::EventPtr landed = in.record();
  if (ranks.size() == 1) return comm::Pending(std::make_unique<GoingUp>(std::move(landed)));
  return ranks.all_gather_behind(landed, {own, whole.elements / ranks.size(), whole.dtype}, whole);
}

comm::Pending gather_from(offload::SliceStore& store, Bytes at, const comm::Span& whole,
                          comm::Communicator& ranks) {
  return comm::Pending(std::make_unique<FromStore>(store, at, whole, ranks));
}

}  // namespace fm::zero
