// Sums of squares of the blocks of flat parameters, which kernels compute and the host adds up.
#pragma once

#include <span>

#include "core/answers.h"
#include "core/buffer.h"
#include "core/param_table.h"
#include "core/work.h"

namespace fm::zero {

// Blocks are numbers [1024 b, 1024 b + 1024) of a flat parameter; of a block at an end, what is
// there. Sums are fp64 (kernels/pointwise/sums.h).
//
// Thread:   the rank's thread.
// Lifetime: the memory's ledger and source outlive it.
class BlockSquares {
 public:
  BlockSquares() = default;
  // For so many blocks at once.
  BlockSquares(const core::RankMemory& memory, std::int64_t blocks);

  // What that takes of a device's memory.
  static core::Bytes on_device(std::int64_t blocks);

  // Numbers [first, first + values.size()) of a flat parameter, without those of `repeats`, which
  // ascend. Returns how many blocks they touch, whose sums lie at `at` and behind it.
  std::int64_t put(const core::Work& work, core::Elements first, std::span<const float> values,
                   std::span<const core::FlatRange> repeats, std::int64_t at = 0);
  // `count` sums that were put at `at` and behind it. One wait for a device.
  std::span<const double> read(const core::Work& work, std::int64_t count, std::int64_t at = 0);

 private:
  void put_counted(const core::Work& work, core::Elements begin, std::span<const float> values,
                   std::span<const core::FlatRange> repeats, std::span<double> sum);

  core::Answers<double> sums_;
  core::Answers<float> counted_;  // of one block: the numbers that count, and zeros
};

}  // namespace fm::zero
