#include "comm/shm/group.h"

#include <algorithm>
#include <new>
#include <utility>

#include "core/check.h"

namespace fm::comm {
namespace {

core::Bytes block_bytes(std::size_t members) {
  return core::Bytes(
      static_cast<std::int64_t>(sizeof(MemberWords) + members * sizeof(ChannelWords)));
}

}  // namespace

ShmGroup::ShmGroup(std::shared_ptr<ShmHost> host, Communicator& wire, std::vector<int> members,
                   Group group)
    : host_(std::move(host)), members_(std::move(members)), group_(std::move(group)) {
  const core::Bytes needed = block_bytes(members_.size());
  void* const own = host_->own().allocate(needed);
  FM_MACHINE_CHECK(own != nullptr, core::ExitCode::kOutOfMemory,
                   "memory that ranks share must fit; free memory or pass --shm false (asked ",
                   needed.count(), " bytes)");
  new (own) MemberWords;
  auto* const channels = static_cast<std::byte*>(own) + sizeof(MemberWords);
  for (std::size_t peer = 0; peer < members_.size(); ++peer) {
    new (channels + peer * sizeof(ChannelWords)) ChannelWords;
  }
  const Place mine = host_->place_of(own);
  std::vector<Place> places(members_.size());
  const core::Elements bytes(sizeof(Place));
  wire.all_gather({&mine, bytes, core::DType::kU8},
                  {places.data(), bytes * size(), core::DType::kU8})
      .wait();
  for (const Place& place : places) blocks_.push_back(host_->at(place));
}

MemberWords& ShmGroup::words(int member) const {
  return *std::launder(reinterpret_cast<MemberWords*>(blocks_[static_cast<std::size_t>(member)]));
}

ChannelWords& ShmGroup::channel(int owner, int peer) const {
  std::byte* const channels = blocks_[static_cast<std::size_t>(owner)] + sizeof(MemberWords);
  return *std::launder(reinterpret_cast<ChannelWords*>(channels + static_cast<std::size_t>(peer) *
                                                                      sizeof(ChannelWords)));
}

void ShmGroup::ring_all() const {
  for (int member = 0; member < size(); ++member) {
    if (member != rank()) ring(member);
  }
}

int ShmGroup::first_not_posted(std::uint64_t sequence) const {
  for (int member = 0; member < size(); ++member) {
    if (entry(member, sequence).ticket.load(std::memory_order_acquire) != sequence + 1) {
      return member;
    }
  }
  return -1;
}

int ShmGroup::first_not_done(std::uint64_t sequence) const {
  for (int member = 0; member < size(); ++member) {
    if (words(member).done.load(std::memory_order_acquire) <= sequence) return member;
  }
  return -1;
}

bool ShmGroup::may_post(std::uint64_t sequence) {
  if (posted_ != sequence) return false;
  if (sequence < all_done_ + kShmRing) return true;
  if (first_not_done(sequence - kShmRing) >= 0) return false;
  all_done_ = words(0).done.load(std::memory_order_acquire);
  for (int member = 1; member < size(); ++member) {
    all_done_ = std::min(all_done_, words(member).done.load(std::memory_order_acquire));
  }
  return true;
}

}  // namespace fm::comm
