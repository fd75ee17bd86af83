#include "text/tokenizer/merges.h"

#include <algorithm>

namespace fm::tokenizer {
namespace {

// Up to here a scan for the smallest rank is faster than a queue.
constexpr std::size_t kShortWord = 40;

void merge_short(const MergeTable& table, MergeSpace& space) {
  std::vector<TokenId>& ids = space.ids;
  std::vector<MergeTable::Merge>& merges = space.merges;
  merges.clear();
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) merges.push_back(table.find(ids[i], ids[i + 1]));
  while (!merges.empty()) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < merges.size(); ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (merges[best].rank == MergeTable::kNone) return;
    ids[best] = merges[best].product;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    merges.erase(merges.begin() + static_cast<std::ptrdiff_t>(best));
    if (best > 0) merges[best - 1] = table.find(ids[best - 1], ids[best]);
    if (best < merges.size()) merges[best] = table.find(ids[best], ids[best + 1]);
  }
}

// For a heap whose top has the smallest rank, of equal ones the smallest place.
bool comes_later(const MergeSpace::MergeCandidate& a, const MergeSpace::MergeCandidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
}

class LongMerge {
 public:
  LongMerge(const MergeTable& table, MergeSpace& space)
      : table_(table), linked_(space.linked), queue_(space.queue) {}

  void run(std::vector<TokenId>& ids) {
    link(ids);
    while (!queue_.empty()) {
      std::pop_heap(queue_.begin(), queue_.end(), comes_later);
      const MergeSpace::MergeCandidate top = queue_.back();
      queue_.pop_back();
      apply(top);
    }
    ids.clear();
    for (const MergeSpace::Linked& symbol : linked_) {
      if (symbol.id != kNoToken) ids.push_back(symbol.id);
    }
  }

 private:
  MergeSpace::Linked& at(std::int32_t index) { return linked_[static_cast<std::size_t>(index)]; }

  void link(const std::vector<TokenId>& ids) {
    linked_.clear();
    queue_.clear();
    const auto count = static_cast<std::int32_t>(ids.size());
    for (std::int32_t i = 0; i < count; ++i) {
      linked_.push_back({ids[static_cast<std::size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1});
    }
    for (std::int32_t i = 0; i + 1 < count; ++i) offer(i, i + 1, false);
    std::make_heap(queue_.begin(), queue_.end(), comes_later);
  }

  void offer(std::int32_t left, std::int32_t right, bool into_heap = true) {
    if (left < 0 || right < 0) return;
    const TokenId left_id = at(left).id;
    const TokenId right_id = at(right).id;
    const MergeTable::Merge merge = table_.find(left_id, right_id);
    if (merge.rank == MergeTable::kNone) return;
    queue_.push_back({merge.rank, left, left_id, right_id, merge.product});
    if (into_heap) std::push_heap(queue_.begin(), queue_.end(), comes_later);
  }

  void apply(const MergeSpace::MergeCandidate& top) {
    MergeSpace::Linked& left = at(top.at);
    if (left.id != top.left || left.behind < 0) return;  // merged since
    MergeSpace::Linked& right = at(left.behind);
    if (right.id != top.right) return;
    left.id = top.product;
    right.id = kNoToken;
    left.behind = right.behind;
    if (right.behind >= 0) at(right.behind).before = top.at;
    offer(left.before, top.at);
    offer(top.at, left.behind);
  }

  const MergeTable& table_;
  std::vector<MergeSpace::Linked>& linked_;
  std::vector<MergeSpace::MergeCandidate>& queue_;
};

}  // namespace

void MergeTable::reserve(std::size_t merges) {
  std::size_t slots = 16;
  while (slots < 2 * merges) slots *= 2;
  if (slots > slots_.size()) grow(slots);
}

void MergeTable::grow(std::size_t slots) {
  std::vector<Slot> old(slots);
  old.swap(slots_);
  mask_ = slots - 1;
  shift_ = 64;
  for (std::size_t left = slots; left > 1; left /= 2) --shift_;
  used_ = 0;
  for (const Slot& slot : old) {
    if (slot.key == kFree) continue;
    put(static_cast<TokenId>(slot.key >> 32), static_cast<TokenId>(slot.key & 0xFFFFFFFF),
        slot.merge);
  }
}

void MergeTable::put(TokenId left, TokenId right, Merge merge) {
  if (2 * (used_ + 1) > slots_.size()) grow(std::max<std::size_t>(16, 2 * slots_.size()));
  const std::uint64_t key = key_of(left, right);
  std::size_t at = first_slot(key);
  while (slots_[at].key != kFree && slots_[at].key != key) at = (at + 1) & mask_;
  if (slots_[at].key == kFree) ++used_;
  slots_[at] = {key, merge};
}

void merge_all(const MergeTable& table, MergeSpace& space) {
  if (space.ids.size() <= kShortWord) {
    merge_short(table, space);
  } else {
    LongMerge(table, space).run(space.ids);
  }
}

}  // namespace fm::tokenizer
