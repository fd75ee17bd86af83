#include "text/data/permutation.h"

#include "core/check.h"
#include "core/philox.h"

namespace fm::data {
namespace {

constexpr std::uint64_t kRounds = 8;

}  // namespace

Permutation::Permutation(std::int64_t size, std::uint64_t seed, std::int64_t epoch)
    : size_(static_cast<std::uint64_t>(size)),
      key_(core::stream_key(seed, "data.row_order")),
      epoch_(static_cast<std::uint64_t>(epoch)) {
  FM_CHECK(size >= 1 && epoch >= 0, "permutation of ", size, " rows in epoch ", epoch);
  while (half_bits_ < 31 && (1ULL << (2 * half_bits_)) < size_) ++half_bits_;
}

std::uint64_t Permutation::encrypt(std::uint64_t value) const {
  const std::uint64_t mask = (1ULL << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & mask;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    const core::PhiloxBlock noise = core::philox(key_, (round << 32) | right, epoch_);
    const std::uint64_t mixed = left ^ (noise[0] & mask);
    left = right;
    right = mixed;
  }
  return (left << half_bits_) | right;
}

std::int64_t Permutation::operator()(std::int64_t index) const {
  auto value = static_cast<std::uint64_t>(index);
  FM_CHECK(value < size_, "index ", index, " of a permutation of ", size_);
  do value = encrypt(value);
  while (value >= size_);
  return static_cast<std::int64_t>(value);
}

}  // namespace fm::data
