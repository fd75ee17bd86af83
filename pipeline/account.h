// Predictions from a program alone: bytes per memory account, bytes on the wire. The runtime
// allocates exactly what is predicted here.
#pragma once

#include <map>
#include <vector>

#include "core/shard_plan.h"
#include "pipeline/instruction.h"
#include "pipeline/placement.h"

namespace fm::pipeline {

// What one unit needs.
struct UnitFootprint {
  core::Elements own;   // flat length of its parameters
  core::Elements tied;  // flat length of the embedding's matrix when this is a tied head
  core::Bytes kept;     // per micro-batch, from forward to backward
  core::Bytes parked;
  core::Bytes scratch;
  double forward_flops = 0.0;
};

struct AccountInput {
  Placement units;
  core::ShardPlan plan;
  core::SumOrder order = core::SumOrder::kFast;
  int dp_size = 1;
  int micros = 1;
  int gradient_slots = 1;  // whole gradients that wait for their reduction at once
  bool recompute = false;
  // Of parameters and hidden states; narrower than fp32, the optimizer keeps an fp32 master.
  core::DType element = core::DType::kF32;
  int moments = 2;                        // fp32 optimizer values per parameter
  core::Elements hidden;                  // B x T x D: one hidden state
  std::vector<UnitFootprint> footprints;  // by unit
};

// How many buffers of each pool are in use at once.
struct ActivationPeaks {
  int hidden = 0;  // hidden states and their gradients
  int kept = 0;    // what blocks keep for backward
  int parked = 0;  // what backward-inputs leave for backward-weights
};
ActivationPeaks activation_peaks(const Program& program, const Placement& units, bool recompute);
// Units whole in a slot at once.
int gather_peak(const Program& program);

struct MemoryForecast {  // bytes of one rank, owned for the whole run
  core::Bytes params, grads, optimizer, slots, scratch, activations;
  core::Bytes total() const { return params + grads + optimizer + slots + scratch + activations; }
};
MemoryForecast forecast_memory(const Program& program, const AccountInput& input, int pipe_rank);

// Sizes of the pools that the forecast is made of, for the runtime to allocate.
struct PoolSizes {
  ActivationPeaks peaks;
  int gather_slots = 0;
  core::Elements gather_slot;    // largest unit, padded, tied matrix included
  core::Elements gradient_slot;  // 0 when gradients are written where they stay
  core::Elements tied_slot;      // from the head's backward to the embedding's, 0: not needed
  core::Bytes kept;              // largest
  core::Bytes parked;            // largest
  core::Bytes arena;             // largest scratch of a unit
  core::Elements incoming;       // a reduced gradient before it is added, 0 when never needed
  core::Elements
      tied_incoming;       // the same for a tied gradient, where it must not be the same place
  int counter_levels = 0;  // canonical: accumulators per group beside the gradient itself
};
PoolSizes pool_sizes(const Program& program, const AccountInput& input, int pipe_rank);
MemoryForecast forecast_memory(const PoolSizes& pools, const AccountInput& input, int pipe_rank);

// Bytes that one rank sends per step, by picture of the instruction ("g", "R", "p", "sa", ...).
std::map<std::string, core::Bytes> wire_bytes(const Program& program, const AccountInput& input,
                                              int pipe_rank);

}  // namespace fm::pipeline
