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
    for (const BufferMove& move : moves_of(instruction)) {
      if (happens(move.when, instruction)) count(move);
    }
    ++seen_[static_cast<std::size_t>(instruction.op)];
  }
  ActivationPeaks peaks() const { return {peaks_[0], peaks_[1], peaks_[2], peaks_[3]}; }

 private:
  // The first tile of the embedding takes the hidden state that all of them fill. The gradient of
  // what they filled stays where it is until all of theirs are written.
  std::span<const BufferMove> moves_of(const Instruction& at) const {
    using When = BufferMove::When;
    static constexpr BufferMove kFills[] = {{Pool::kHidden, +1, When::kAlways}};
    static constexpr BufferMove kWritten[] = {{Pool::kHidden, -1, When::kAlways}};
    static constexpr BufferMove kBegins[] = {{Pool::kBetween, +1, When::kAlways}};
    static constexpr BufferMove kEnds[] = {{Pool::kHidden, -1, When::kGivesNothing},
                                           {Pool::kBetween, -1, When::kAlways}};
    const int unit = units_.unit_of(at);
    const UnitRange of_embedding = units_.embedding_tiles();
    if (units_.is_tile(unit)) {
      const bool fills = at.op == Op::kForward && unit == of_embedding.first;
      return fills && of_embedding.count() > 0 ? std::span<const BufferMove>(kFills)
                                               : std::span<const BufferMove>();
    }
    if (unit == 0 && of_embedding.count() > 0 && row_of(at.op).forwards > 0.0) {
      return at.op == Op::kBackwardWeight ? std::span<const BufferMove>(kWritten)
                                          : std::span<const BufferMove>();
    }
    if (unit == units_.head() && units_.head_tiles().count() > 0) {
      if (at.op == Op::kForward) return kBegins;
      if (at.op == Op::kLoss) return kEnds;
    }
    return row_of(at.op).moves;
  }

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
  std::array<int, 4> live_{}, peaks_{};  // by pool
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
    sizes.between = std::max(sizes.between, footprint.between);
    sizes.arena = std::max(sizes.arena, footprint.scratch);
  }
  return sizes;
}

}  // namespace fm::pipeline
