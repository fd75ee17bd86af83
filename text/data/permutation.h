// A keyed permutation of [0, size): the order of rows in one epoch, without storing it.
//
// A balanced Feistel network (Luby and Rackoff, SIAM J. Comput. 17, 1988) over the smallest
// 2^(2k) >= size with Philox as round function; values outside are walked on (Black and Rogaway,
// "Ciphers with arbitrary finite domains", CT-RSA 2002). Costs about a microsecond per value.
#pragma once

#include <cstdint>

namespace fm::data {

class Permutation {
 public:
  // Depends on (size, seed, epoch) and on nothing else. size >= 1.
  Permutation(std::int64_t size, std::uint64_t seed, std::int64_t epoch);
  // Image of `index` in [0, size).
  std::int64_t operator()(std::int64_t index) const;

 private:
  std::uint64_t encrypt(std::uint64_t value) const;

  std::uint64_t size_;
  std::uint64_t key_;
  std::uint64_t epoch_;
  unsigned half_bits_ = 1;
};

}  // namespace fm::data
