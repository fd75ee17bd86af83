#include "comm/nccl/nccl_counts.h"

#include <atomic>

namespace fm::comm {

NcclCounts::NcclCounts(Communicator& host) : host_(host) {
  if (core::MemorySource* const common = host.common_memory())
    words_ = static_cast<std::int64_t*>(common->allocate(bytes()));
}

NcclCounts::~NcclCounts() {
  if (words_ != nullptr) host_.common_memory()->release(words_, bytes());
}

core::Bytes NcclCounts::bytes() const {
  const std::int64_t ranks = host_.size();
  return core::bytes_of(core::Elements(ranks + 2 * ranks * ranks), core::DType::kI64);
}

std::int64_t* NcclCounts::word(const PostSeat& seat) const {
  if (seat.from < 0) return words_ + seat.rank;
  const std::int64_t way = std::int64_t{seat.from} * host_.size() + seat.to;
  return words_ + host_.size() + 2 * way + (seat.rank == seat.from ? 0 : 1);
}

void NcclCounts::set(const PostSeat& seat, std::int64_t count) {
  if (words_ == nullptr) return;
  std::atomic_ref(*word(seat)).store(count, std::memory_order_relaxed);
}

std::optional<std::int64_t> NcclCounts::get(const PostSeat& seat) const {
  if (words_ == nullptr) return std::nullopt;
  return std::atomic_ref(*word(seat)).load(std::memory_order_relaxed);
}

}  // namespace fm::comm
