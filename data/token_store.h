// The corpus as one stream of ids in memory: two bytes per id where the vocabulary fits.
//
// Invariant: chunks are full but the last; ids are appended once and never change.
// Thread:    built by one thread, then read by any.
// Lifetime:  the ledger outlives it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/buffer.h"

namespace fm::data {

class TokenStore {
 public:
  // Ids will be in [0, vocab). Memory is charged to the ledger's account kData.
  TokenStore(core::Ledger& ledger, std::int64_t vocab);

  void append(std::span<const std::int32_t> ids);
  std::int64_t size() const { return size_; }
  // Ids [first, first + ids.size()) of the stream.
  void read(std::int64_t first, std::span<std::int32_t> ids) const;

 private:
  core::Ledger* ledger_;
  bool narrow_;  // uint16 instead of int32
  std::int64_t size_ = 0;
  std::vector<core::Buffer> chunks_;
};

}  // namespace fm::data
