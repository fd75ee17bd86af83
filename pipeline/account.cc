#include "pipeline/account.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <set>

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

// Counts the buffers of the hidden and kept pools while a program runs. The rules of life are the
// runtime's (engine/step_runtime.h): a hidden state lives from its producer to its consumer's
// backward; a sent buffer until the next send of the same direction or the end.
class ActivationWalk {
 public:
  enum class Kind : std::uint8_t { kKeeping, kRecomputing, kForwardOnly };

  ActivationWalk(const UnitRow& row, Kind kind)
      : row_(row), keeps_(kind == Kind::kKeeping), forward_only_(kind == Kind::kForwardOnly) {}

  void see(const Instruction& at) {
    switch (at.op) {
      case Op::kRecvAct:
      case Op::kRecvGrad: hold_hidden(1); break;
      case Op::kForward: forward(at.unit); break;
      case Op::kLoss: hold_hidden(forward_only_ ? -1 : 0); break;
      case Op::kRecompute: hold_kept(1); break;
      case Op::kBackward: backward_input(at.unit), backward_weight(at.unit); break;
      case Op::kBackwardInput: backward_input(at.unit); break;
      case Op::kBackwardWeight: backward_weight(at.unit); break;
      case Op::kSendAct: hold_hidden(act_in_flight_ ? -1 : 0), act_in_flight_ = true; break;
      case Op::kSendGrad: hold_hidden(grad_in_flight_ ? -1 : 0), grad_in_flight_ = true; break;
      case Op::kCount:
      case Op::kLoad:
      case Op::kGather:
      case Op::kRelease:
      case Op::kReduce:
      case Op::kReduceTied:
      case Op::kNorm:
      case Op::kFetch:
      case Op::kUpdate:
      case Op::kStore:
      case Op::kPublish:
      case Op::kReport: break;
    }
  }
  ActivationPeaks peaks() const { return peaks_; }

 private:
  void hold_hidden(int change) {
    hidden_ += change;
    peaks_.hidden = std::max(peaks_.hidden, hidden_);
  }
  void hold_kept(int change) {
    kept_ += change;
    peaks_.kept = std::max(peaks_.kept, kept_);
  }
  void forward(int unit) {
    hold_hidden(1);  // the output
    if (row_.is_block(unit)) hold_kept(1);
    if (row_.is_block(unit) && !keeps_) hold_kept(-1);
    if (forward_only_ && unit > 0) hold_hidden(-1);  // the input
  }
  void backward_input(int unit) {
    if (unit > 0) hold_hidden(1);  // the input's gradient
    hold_hidden(-1);               // the output's gradient
  }
  void backward_weight(int unit) {
    if (unit > 0) hold_hidden(-1);  // the input
    if (row_.is_block(unit)) hold_kept(-1);
  }

  const UnitRow& row_;
  bool keeps_;  // what a block keeps for backward, from its forward on
  bool forward_only_;
  bool act_in_flight_ = false;
  bool grad_in_flight_ = false;
  int hidden_ = 0;
  int kept_ = 0;
  ActivationPeaks peaks_;
};

bool trains(const Program& program) {
  return std::any_of(program.begin(), program.end(), [](const Instruction& at) {
    return at.op == Op::kBackward || at.op == Op::kBackwardWeight;
  });
}

const UnitFootprint& unit_at(const AccountInput& input, int unit) {
  return input.units[static_cast<std::size_t>(unit)];
}

// Whether both ends of the tied matrix live on this rank: one copy of weights and moments serves.
bool shares_tied(const AccountInput& input, int pipe_rank) {
  return input.row.tied && input.row.is_first(pipe_rank) && input.row.is_last(pipe_rank);
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
  if (!input.row.one_tied_gradient) {
    sizes.gradient_slot = std::max(sizes.gradient_slot, own + tied);
  } else if (unit == 0) {
    sizes.tied_slot = own;
  } else {
    sizes.gradient_slot = std::max(sizes.gradient_slot, own);
  }
}

// Slices need a place to arrive at. Own parts that are written in place wait there, too: those of
// a unit at the same time, and a tied one while the others come and go.
void add_incoming(PoolSizes& sizes, const AccountInput& input, int unit) {
  const Elements own = map_of(unit_at(input, unit).own, input.dp_size).slice();
  const Elements tied = map_of(unit_at(input, unit).tied, input.dp_size).slice();
  const bool in_place = input.plan.own_part_in_place();
  if (!in_place) {
    sizes.incoming = std::max({sizes.incoming, own, tied});
  } else if (input.row.one_tied_gradient && unit == 0) {
    sizes.tied_incoming = own;
  } else {
    const bool behind = !input.row.one_tied_gradient;
    sizes.incoming = std::max(sizes.incoming, behind ? own + tied : own);
  }
}

}  // namespace

ActivationPeaks activation_peaks(const Program& program, const UnitRow& row, bool recompute) {
  using Kind = ActivationWalk::Kind;
  const Kind training = recompute ? Kind::kRecomputing : Kind::kKeeping;
  ActivationWalk walk(row, trains(program) ? training : Kind::kForwardOnly);
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
  sizes.peaks = activation_peaks(program, input.row, input.recompute);
  sizes.gather_slots = gather_peak(program);
  // Whole gradients are added where they arrive, in their slot.
  const bool adds_later =
      input.plan.reduce_every_micro && input.micros > 1 && input.plan.grads == Home::kOneSliceEach;
  const UnitRange range = input.row.ranges[static_cast<std::size_t>(pipe_rank)];
  for (int unit = range.first; unit < range.last; ++unit) {
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
  const UnitRange range = input.row.ranges[static_cast<std::size_t>(pipe_rank)];
  for (int unit = range.first; unit < range.last; ++unit) {
    add_group(unit_at(input, unit).own, true);
    const Elements tied = unit_at(input, unit).tied;
    if (tied.count() > 0 && !input.row.one_tied_gradient) add_group(tied, !shared);
  }
  if (input.row.has_tied_end(pipe_rank) && input.row.pipe_ranks() > 1) {
    const ShardMap tied = map_of(unit_at(input, input.row.head()).tied, input.dp_size);
    out.scratch += f32(kept_elements(tied, input.plan.optimizer));  // the other end's gradient
  }
  out.slots = core::bytes_of(pools.gather_slot, input.element) * pools.gather_slots +
              f32(pools.gradient_slot) + f32(pools.tied_slot);
  out.scratch += pools.arena + f32(pools.incoming) + f32(pools.tied_incoming);
  out.activations = core::bytes_of(input.hidden, input.element) * pools.peaks.hidden +
                    pools.kept * pools.peaks.kept + pools.parked;
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
    if (at.op == Op::kReduceTied && input.row.pipe_ranks() > 1) {
      const Elements tied = unit_at(input, input.row.head()).tied;
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
      const bool reduced = !tied || !input.row.one_tied_gradient;
      if (at.op == Op::kReduce && reduced) out[picture] += reduction_bytes(map, input);
    }
  }
  return out;
}

}  // namespace fm::pipeline
