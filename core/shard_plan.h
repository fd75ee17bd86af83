// Who owns which slice of a flat buffer, what each ZeRO stage shards, and tiers: arithmetic only.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/check.h"
#include "core/types.h"

namespace fm::core {

// Where bytes sleep between their uses: where the rank computes (memory of this CPU, or of its
// device), in host memory beside a device, or on a disk.
enum class Tier : std::uint8_t { kDevice, kHost, kNvme };

// Of each role of a trained parameter's state. kHost where the rank computes on this CPU is
// kDevice.
struct Tiers {
  Tier moments = Tier::kDevice;
  Tier masters = Tier::kDevice;
  Tier grads = Tier::kDevice;   // at rest, between the last reduction and the update
  Tier params = Tier::kDevice;  // a rank's slices of what units read; with ZeRO 3 alone

  constexpr bool has(Tier tier) const {
    return moments == tier || masters == tier || grads == tier || params == tier;
  }
  bool operator==(const Tiers&) const = default;
};

inline constexpr Elements kBlock(1024);  // slices are whole blocks; sums of squares are per block

// A flat buffer of `elements` cut into `owners` equal slices of whole blocks, at least one; the
// padding at the end holds zeros for ever.
struct ShardMap {
  Elements elements;
  int owners = 1;

  constexpr Elements slice() const {
    return std::max(kBlock, round_up(Elements(ceil_div(elements.count(), owners)), kBlock));
  }
  constexpr Elements padded() const { return slice() * owners; }
  constexpr Elements first_of(int owner) const { return slice() * owner; }
  // Blocks that hold parameters; independent of the number of owners.
  constexpr std::int64_t blocks() const { return ceil_div(elements.count(), kBlock.count()); }
};

// The ZeRO stage is one value: which of the three kinds of state every rank holds whole,
// and which is cut into one slice per data rank (arXiv 1910.02054).

// kOncePerHost: every rank owns one slice, and all ranks of the host read the whole where it lies.
enum class Home : std::uint8_t { kEveryRank, kOneSliceEach, kOncePerHost };

// Whether ranks have parameters in memory that they share.
enum class ParamSharing : std::uint8_t { kPrivate, kOneHost };

// "communication_order" of the JSON (docs/numbers.md, "Order of sums").
enum class SumOrder : std::uint8_t { kFast, kCanonical };

// How long ZeRO-3 keeps gathered weights ("pipeline.regather"): for one use, or for all uses of a
// phase, in which a pipe rank computes in one chunk without another one in between. kUnit: for all
// uses of forward, and of backward, where the schedule runs all micro-batches through a unit before
// the next.
enum class Regather : std::uint8_t { kMicro, kPhase, kUnit };

struct ShardPlan {
  Home params = Home::kEveryRank;
  Home grads = Home::kEveryRank;
  Home optimizer = Home::kEveryRank;
  bool reduce_every_micro = false;
  Regather regather = Regather::kMicro;
  // Ranks of a host, of which each keeps a part of what was gathered until parameters change
  // (ZeRO++'s hpZ, arXiv 2306.10209); 1: nobody does.
  int secondary = 1;

  // Where ranks share memory, a rank writes its own part of a micro-batch's gradient where the sum
  // will rest, and only the other owners' parts into a slot.
  constexpr bool own_part_in_place() const {
    return reduce_every_micro && grads == Home::kOneSliceEach && params == Home::kOncePerHost;
  }
  // Owners' new values must reach every rank that reads them whole.
  constexpr bool publishes() const {
    return params != Home::kOneSliceEach && optimizer == Home::kOneSliceEach;
  }
};

inline constexpr ShardPlan kPlanOf[] = {
    {Home::kEveryRank, Home::kEveryRank, Home::kEveryRank, false},
    {Home::kEveryRank, Home::kEveryRank, Home::kOneSliceEach, false},
    {Home::kEveryRank, Home::kOneSliceEach, Home::kOneSliceEach, true},
    {Home::kOneSliceEach, Home::kOneSliceEach, Home::kOneSliceEach, true},
};

// Of a ZeRO stage above 1 with gradients whole on every rank, reduced once per step in the fast
// order: memory for bytes on the wire ("pipeline.reduce_every_micro": false).
enum class Reductions : std::uint8_t { kOfStage, kOncePerStep };

// The canonical order sums over ranks within each micro-batch first, so it reduces every one.
// Where ranks share memory, ZeRO 1 to 3 need no copy of the parameters per rank.
constexpr ShardPlan plan_of(int zero_stage, SumOrder order,
                            ParamSharing sharing = ParamSharing::kPrivate,
                            Reductions reductions = Reductions::kOfStage) {
  ShardPlan plan = kPlanOf[zero_stage];
  if (reductions == Reductions::kOncePerStep) {
    plan.grads = Home::kEveryRank;
    plan.reduce_every_micro = false;
  }
  plan.reduce_every_micro = plan.reduce_every_micro || order == SumOrder::kCanonical;
  const bool one_owner = plan.optimizer == Home::kOneSliceEach;
  if (sharing == ParamSharing::kOneHost && one_owner) plan.params = Home::kOncePerHost;
  return plan;
}

}  // namespace fm::core
