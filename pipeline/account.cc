#include "pipeline/account.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace fm::pipeline {
namespace {

using core::Bytes;
using core::DType;
using core::Elements;
using core::Home;
using core::ShardMap;

Bytes f32(Elements elements) { return core::bytes_of(elements, DType::kF32); }

ShardMap map_of(Elements elements, int dp_size) { return {elements, dp_size}; }

// Elements of a flat buffer that one rank keeps under `home`.
Elements kept_elements(const ShardMap& map, Home home) {
  return home == Home::kEveryRank ? map.padded() : map.slice();
}

// Counts the buffers of every pool while a program runs, by the moves of each instruction's row.
class ActivationWalk {
 public:
  ActivationWalk(const Placement& units, bool evaluation, bool recompute)
      : units_(units), evaluation_(evaluation), passing_(evaluation || recompute) {}

  void see(const Instruction& at) {
    for (const BufferMove& move : row_of(at.op).moves) {
      if (happens(move.when, at)) count(move);
    }
    seen_[static_cast<std::size_t>(at.op)] = true;
  }
  ActivationPeaks peaks() const { return {peaks_[0], peaks_[1], peaks_[2]}; }

 private:
  bool happens(BufferMove::When when, const Instruction& at) const {
    using When = BufferMove::When;
    const bool block = units_.is_block(at.unit);
    const bool fed = at.unit > 0;
    const bool held[] = {
        true, block, block && passing_, fed, evaluation_, fed && evaluation_, was_seen(at.op)};
    static_assert(std::size(held) == static_cast<std::size_t>(When::kNotTheFirst) + 1);
    return held[static_cast<std::size_t>(when)];
  }
  bool was_seen(Op op) const { return seen_[static_cast<std::size_t>(op)]; }

  void count(const BufferMove& move) {
    const auto pool = static_cast<std::size_t>(move.pool);
    live_[pool] += move.change;
    peaks_[pool] = std::max(peaks_[pool], live_[pool]);
  }

  const Placement& units_;
  bool evaluation_;
  bool passing_;  // blocks keep nothing between forward and backward
  std::array<bool, kOpCount> seen_{};
  std::array<int, 3> live_{}, peaks_{};  // by pool
};

const UnitFootprint& unit_at(const AccountInput& input, int unit) {
  return input.footprints[static_cast<std::size_t>(unit)];
}

// Whether both ends of the tied matrix live on this rank: one copy of weights and moments serves.
bool shares_tied(const AccountInput& input, int pipe_rank) {
  return input.units.tied && input.units.has_embedding(pipe_rank) &&
         input.units.has_head(pipe_rank);
}

// Bytes sent by one reduction of a flat buffer.
Bytes reduction_bytes(const ShardMap& map, const AccountInput& input) {
  const Bytes scatter = f32(map.slice()) * (input.dp_size - 1);
  const bool whole = input.plan.optimizer == Home::kEveryRank ||
                     (input.plan.reduce_every_micro && input.plan.grads == Home::kEveryRank);
  return whole ? scatter * 2 : scatter;
}

// Where the gradient of one micro-batch waits for its reduction.
void add_gradient_slot(PoolSizes& sizes, const AccountInput& input, int unit) {
  const auto in_slot = [&](Elements elements) {
    const ShardMap map = map_of(elements, input.dp_size);
    return input.plan.own_part_in_place() ? map.padded() - map.slice() : map.padded();
  };
  const Elements own = in_slot(unit_at(input, unit).own);
  const Elements tied = in_slot(unit_at(input, unit).tied);
  if (!input.units.one_tied_gradient) {
    sizes.gradient_slot = std::max(sizes.gradient_slot, own + tied);
  } else if (unit == 0) {
    sizes.tied_slot = own;
  } else {
    sizes.gradient_slot = std::max(sizes.gradient_slot, own);
  }
}

// Slices need a place to arrive at. Own parts that are written in place wait there, too, and so do
// reductions that are under way together: those of a unit at the same time, and a tied one while
// the others come and go.
void add_incoming(PoolSizes& sizes, const AccountInput& input, int unit) {
  const Elements own = map_of(unit_at(input, unit).own, input.dp_size).slice();
  const Elements tied = map_of(unit_at(input, unit).tied, input.dp_size).slice();
  if (!input.plan.own_part_in_place() && input.gradient_slots == 1) {
    sizes.incoming = std::max({sizes.incoming, own, tied});
  } else if (input.units.one_tied_gradient && unit == 0) {
    sizes.tied_incoming = own;
  } else {
    const bool behind = !input.units.one_tied_gradient;
    sizes.incoming = std::max(sizes.incoming, behind ? own + tied : own);
  }
}

}  // namespace

ActivationPeaks activation_peaks(const Program& program, const Placement& units, bool recompute) {
  ActivationWalk walk(units, !trains(program), recompute);
  for (const Instruction& at : program) walk.see(at);
  return walk.peaks();
}

int gather_peak(const Program& program) {
  int live = 0;
  int peak = 0;
  for (const Instruction& at : program) {
    if (at.op == Op::kGather) peak = std::max(peak, ++live);
    if (at.op == Op::kRelease) --live;
  }
  return peak;
}

PoolSizes pool_sizes(const Program& program, const AccountInput& input, int pipe_rank) {
  PoolSizes sizes;
  sizes.peaks = activation_peaks(program, input.units, input.recompute);
  sizes.gather_slots = gather_peak(program);
  // Whole gradients are added where they arrive, in their slot.
  const bool adds_later =
      input.plan.reduce_every_micro && input.micros > 1 && input.plan.grads == Home::kOneSliceEach;
  for (const int unit : input.units.units_of(pipe_rank)) {
    const UnitFootprint& at = unit_at(input, unit);
    const ShardMap own = map_of(at.own, input.dp_size);
    const ShardMap tied = map_of(at.tied, input.dp_size);
    const Elements whole = own.padded() + tied.padded();
    if (sizes.gather_slots > 0) sizes.gather_slot = std::max(sizes.gather_slot, whole);
    if (input.plan.reduce_every_micro) add_gradient_slot(sizes, input, unit);
    if (adds_later) add_incoming(sizes, input, unit);
    sizes.kept = std::max(sizes.kept, at.kept);
    sizes.parked = std::max(sizes.parked, at.parked);
    sizes.arena = std::max(sizes.arena, at.scratch);
  }
  if (input.order == core::SumOrder::kCanonical) {
    sizes.counter_levels = std::bit_width(static_cast<unsigned>(input.micros)) - 1;
  }
  return sizes;
}

MemoryForecast forecast_memory(const Program& program, const AccountInput& input, int pipe_rank) {
  return forecast_memory(pool_sizes(program, input, pipe_rank), input, pipe_rank);
}

MemoryForecast forecast_memory(const PoolSizes& pools, const AccountInput& input, int pipe_rank) {
  const bool shared = shares_tied(input, pipe_rank);
  MemoryForecast out;
  const auto add_group = [&](Elements elements, bool own_state) {
    const ShardMap map = map_of(elements, input.dp_size);
    const Elements grads = kept_elements(map, input.plan.grads);
    out.grads += f32(grads);
    out.scratch += f32(grads) * pools.counter_levels;
    if (!own_state) return;
    const bool master = input.element != DType::kF32;
    const Elements updated = kept_elements(map, input.plan.optimizer);
    out.params += core::bytes_of(kept_elements(map, input.plan.params), input.element);
    out.optimizer += f32(updated) * (input.moments + (master ? 1 : 0));
  };
  for (const int unit : input.units.units_of(pipe_rank)) {
    add_group(unit_at(input, unit).own, true);
    const Elements tied = unit_at(input, unit).tied;
    if (tied.count() > 0 && !input.units.one_tied_gradient) add_group(tied, !shared);
  }
  if (input.units.has_tied_end(pipe_rank) && !input.units.both_ends_on_one_rank()) {
    const ShardMap tied = map_of(unit_at(input, input.units.head()).tied, input.dp_size);
    out.scratch += f32(kept_elements(tied, input.plan.optimizer));  // the other end's gradient
  }
  out.slots = core::bytes_of(pools.gather_slot, input.element) * pools.gather_slots +
              f32(pools.gradient_slot) * input.gradient_slots + f32(pools.tied_slot);
  out.scratch +=
      pools.arena + f32(pools.incoming) * input.gradient_slots + f32(pools.tied_incoming);
  out.activations = core::bytes_of(input.hidden, input.element) * pools.peaks.hidden +
                    pools.kept * pools.peaks.kept + pools.parked * pools.peaks.parked;
  return out;
}

std::map<std::string, Bytes> wire_bytes(const Program& program, const AccountInput& input,
                                        int pipe_rank) {
  std::map<std::string, Bytes> out;
  for (const Instruction& at : program) {
    const std::string picture(row_of(at.op).picture);
    if (at.op == Op::kSendAct || at.op == Op::kSendGrad) {
      out[picture] += core::bytes_of(input.hidden, input.element);
    }
    if (at.op == Op::kReduceTied && !input.units.both_ends_on_one_rank()) {
      const Elements tied = unit_at(input, input.units.head()).tied;
      out[picture] += f32(kept_elements(map_of(tied, input.dp_size), input.plan.optimizer));
    }
    if (at.unit < 0) continue;
    const UnitFootprint& unit = unit_at(input, at.unit);
    for (const bool tied : {false, true}) {
      const ShardMap map = map_of(tied ? unit.tied : unit.own, input.dp_size);
      const Bytes others = core::bytes_of(map.slice(), input.element) * (input.dp_size - 1);
      const bool alias = tied && shares_tied(input, pipe_rank);
      const bool moves = input.plan.params != Home::kOncePerHost && !alias;
      if (at.op == Op::kGather || (at.op == Op::kPublish && moves)) out[picture] += others;
      const bool reduced = !tied || !input.units.one_tied_gradient;
      if (at.op == Op::kReduce && reduced) out[picture] += reduction_bytes(map, input);
    }
  }
  return out;
}

}  // namespace fm::pipeline
