// Samples of several sources by weight, and the order of rows in an epoch.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "text/data/sample_source.h"

namespace fm::data {

// Sample p is the next one of the source that is furthest behind its share of the p samples before
// it (Megatron-LM's helpers.cpp, build_blending_indices), so every stretch of samples has nearly
// the shares that the weights ask for. The choice repeats after 10,000 samples, by which shares are
// rounded; each source goes through its own rows in its own order, as often as its share asks for.
// An epoch has as many samples as all sources have rows.
//
// Weights are above 0. Throws UserError (10) for a weight below 1 / 10,000 of all.
std::unique_ptr<SampleSource> make_mixture(std::vector<std::unique_ptr<SampleSource>> sources,
                                           const std::vector<double>& weights);

// A keyed permutation of [0, size): the order of rows in one epoch, without storing it.
//
// A balanced Feistel network (Luby and Rackoff, SIAM J. Comput. 17, 1988) over the smallest
// 2^(2k) >= size with Philox as round function; values outside are walked on (Black and Rogaway,
// "Ciphers with arbitrary finite domains", CT-RSA 2002). Costs about a microsecond per value.
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
