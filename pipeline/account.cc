#include "pipeline/account.h"

#include <algorithm>
#include <array>

namespace fm::pipeline {
namespace {

// Counts the buffers of every pool along a program, by the moves of each instruction's row.
class ActivationWalk {
 public:
  ActivationWalk(const Placement& units, bool recompute) : units_(units), recompute_(recompute) {}

  void see(const Instruction& instruction) {
    for (const BufferMove& move : row_of(instruction.op).moves) {
      if (happens(move.when, instruction)) count(move);
    }
    ++seen_[static_cast<std::size_t>(instruction.op)];
  }
  ActivationPeaks peaks() const { return {peaks_[0], peaks_[1], peaks_[2]}; }

 private:
  bool happens(BufferMove::When when, const Instruction& instruction) const {
    using When = BufferMove::When;
    const bool block = units_.is_block(instruction.unit);
    const bool fed = instruction.unit > 0;
    const bool returns = units_.has_backward(instruction.unit);
    const bool gives = units_.gives_gradient(units_.unit_of(instruction));
    const bool again = block && recompute_ && returns;
    const bool held[] = {true,
                         block,
                         block && (recompute_ || !returns),
                         fed,
                         fed && !returns,
                         gives,
                         !gives,
                         again && !units_.starts_segment(instruction.unit),
                         again && !units_.ends_segment(instruction.unit),
                         seen(instruction.op) >= kMostLeaving};
    static_assert(std::size(held) == static_cast<std::size_t>(When::kAfterLeaving) + 1);
    return held[static_cast<std::size_t>(when)];
  }
  int seen(Op op) const { return seen_[static_cast<std::size_t>(op)]; }

  void count(const BufferMove& move) {
    const auto pool = static_cast<std::size_t>(move.pool);
    live_[pool] += move.change;
    peaks_[pool] = std::max(peaks_[pool], live_[pool]);
  }

  const Placement& units_;
  bool recompute_;
  std::array<int, kOpCount> seen_{};
  std::array<int, 3> live_{}, peaks_{};  // by pool
};

}  // namespace

ActivationPeaks activation_peaks(const Program& program, const Placement& units, bool recompute) {
  ActivationWalk walk(units, recompute);
  for (const Instruction& instruction : program) walk.see(instruction);
  return walk.peaks();
}

int gather_peak(const Program& program) {
  int live = 0;
  int peak = 0;
  for (const Instruction& instruction : program) {
    if (instruction.op == Op::kGather) peak = std::max(peak, ++live);
    if (instruction.op == Op::kRelease) --live;
  }
  return peak;
}

PoolSizes pool_sizes(const Program& program, const Placement& units,
                     std::span<const UnitFootprint> footprints, bool recompute, int pipe_rank) {
  PoolSizes sizes;
  sizes.peaks = activation_peaks(program, units, recompute);
  sizes.gather_slots = gather_peak(program);
  for (const int unit : units.units_of(pipe_rank)) {
    const UnitFootprint& footprint = footprints[static_cast<std::size_t>(unit)];
    sizes.kept = std::max(sizes.kept, footprint.kept);
    sizes.parked = std::max(sizes.parked, footprint.parked);
    sizes.arena = std::max(sizes.arena, footprint.scratch);
  }
  return sizes;
}

}  // namespace fm::pipeline
