#include "offload/disk/move_order.h"

#include <algorithm>
#include <utility>

#include "offload/shared_bytes.h"

namespace fm::offload {
namespace {

bool overlap(const DiskMove& a, const DiskMove& b) {
  return a.at < b.at + b.size && b.at < a.at + a.size;
}

// Both use the same memory, and one of the two changes it.
bool share_memory(const DiskMove& a, const DiskMove& b) {
  const bool one_reads =
      a.direction == BlockDirection::kRead || b.direction == BlockDirection::kRead;
  return one_reads && share_bytes(a.memory, b.memory);
}

bool one_writes(const DiskMove& a, const DiskMove& b) {
  return a.direction == BlockDirection::kWrite || b.direction == BlockDirection::kWrite;
}

}  // namespace

void MoveOrder::add(const DiskMovePtr& move, const DiskMove* behind) {
  move->order = ++asked_;
  const std::int64_t before = behind == nullptr ? move->order : behind->order;
  for (const DiskMovePtr& other : active_) {
    const bool same_place =
        other->order < before && one_writes(*other, *move) && overlap(*other, *move);
    if (!same_place && !share_memory(*other, *move)) continue;
    other->followers.push_back(move);
    ++move->waits_for;
  }
  active_.push_back(move);
  if (move->held) return;
  ++moves_;
  if (move->waits_for == 0) ready_.push_back(move);
}

void MoveOrder::end(const DiskMovePtr& move) {
  move->done = true;
  active_.remove(move);
  if (!move->held) --moves_;
  for (const DiskMovePtr& next : std::exchange(move->followers, {})) {
    if (--next->waits_for == 0 && !next->held) ready_.push_back(next);
  }
}

void MoveOrder::fail_all(const std::string& problem) {
  ready_.clear();
  for (const DiskMovePtr& move : std::exchange(active_, {})) {
    move->followers.clear();
    if (move->held) continue;  // its holder ends it
    if (move->problem.empty()) move->problem = problem;
    move->done = true;
    --moves_;
  }
}

std::vector<DiskMovePtr> MoveOrder::take_ready() {
  std::sort(ready_.begin(), ready_.end(),
            [](const DiskMovePtr& a, const DiskMovePtr& b) { return a->order < b->order; });
  return std::exchange(ready_, {});
}

}  // namespace fm::offload
