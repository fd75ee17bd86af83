// The merging of symbols by rank, which every kind of byte-pair encoding shares.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/tokenizer/vocabulary.h"

namespace fm::tokenizer {

// (left, right) -> (rank, product), open addressing with at most half of the slots in use.
class MergeTable {
 public:
  struct Merge {
    std::uint32_t rank = kNone;
    TokenId product = kNoToken;
  };
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;  // of a pair that does not merge

  void reserve(std::size_t merges);
  // A later merge of the same pair counts.
  void put(TokenId left, TokenId right, Merge merge);

  Merge find(TokenId left, TokenId right) const {
    if (slots_.empty()) return {};
    const std::uint64_t key = key_of(left, right);
    for (std::size_t at = first_slot(key);; at = (at + 1) & mask_) {
      const Slot& slot = slots_[at];
      if (slot.key == key) return slot.merge;
      if (slot.key == kFree) return {};
    }
  }

 private:
  struct Slot {
    std::uint64_t key = kFree;
    Merge merge;
  };
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};  // ids are never negative

  static std::uint64_t key_of(TokenId left, TokenId right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
           static_cast<std::uint32_t>(right);
  }
  std::size_t first_slot(std::uint64_t key) const {
    return static_cast<std::size_t>(key * 0x9E3779B97F4A7C15 >> shift_);
  }
  void grow(std::size_t slots);

  std::vector<Slot> slots_;
  std::size_t mask_ = 0;
  int shift_ = 64;
  std::size_t used_ = 0;
};

// Symbols of one word, and what merging needs; used again from word to word.
struct MergeSpace {
  struct Linked {
    TokenId id = kNoToken;  // kNoToken: merged into the one before it
    std::int32_t before = -1;
    std::int32_t behind = -1;
  };
  struct MergeCandidate {
    std::uint32_t rank = 0;
    std::int32_t at = 0;  // the left symbol
    TokenId left = kNoToken;
    TokenId right = kNoToken;
    TokenId product = kNoToken;
  };
  std::vector<TokenId> ids;               // the word; in the end its tokens
  std::vector<MergeTable::Merge> merges;  // of ids[i] with ids[i + 1]
  std::vector<Linked> linked;
  std::vector<MergeCandidate> queue;
};

// Merges space.ids until no pair merges: always the pair of the smallest rank, of several the
// first.
void merge_all(const MergeTable& table, MergeSpace& space);

}  // namespace fm::tokenizer
