// What one rank keeps of its units, as one value: the flat parameters that ZeRO cuts, where their
// parts lie, and every buffer that the stores allocate. It follows from placement, shard plan,
// parameter tables and the rank's place in the mesh alone; `--plan` adds it up.
#pragma once

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "core/check.h"
#include "core/ledger.h"
#include "core/param_table.h"
#include "pipeline/placement.h"
#include "zero/state_rules.h"

namespace fm::zero {

struct LayoutInput {
  StateRules rules;
  pipeline::Placement units;
  std::vector<const core::ParamTable*> tables;  // by unit: what is trained
  const core::ParamTable* tied = nullptr;       // the matrix that a tied head uses, else null
  // By unit: parameters that nothing changes, null where there are none. Empty: no unit has any.
  std::vector<const core::ParamTable*> frozen = {};
  const core::ParamTable* frozen_tied = nullptr;  // instead of `tied`, where the matrix is frozen
};

// Elements of a flat buffer.
struct Range {
  core::Elements first;
  core::Elements count;
};

// Where a part of a flat parameter lies in a slot.
struct SlotPlace {
  // In a buffer of its own, because it waits while flat parameters come and go that take slots in
  // turn.
  bool alone = false;
  // The part that this rank owns is written where its sum will rest; the slot holds the others.
  bool own_part_in_place = false;
  core::Elements first;
  core::Elements count;  // 0: it needs none
};

// Parameters in one flat padded buffer that is sharded, reduced and updated as one: FSDP's flat
// parameter. One per unit, and one more for the head's end of a tied matrix, with the embedding's
// table, so that both ends own the same slices; where both ends write one gradient there is only
// the embedding's, with two writers. Frozen parameters of a unit are a flat parameter of their own,
// which has neither gradient nor optimizer state nor master.
struct FlatParam {
  int unit = 0;
  bool tied_end = false;  // the head's end of the tied matrix; counted at the embedding's place
  int end = -1;           // of a tile: the unit whose matrix it has rows of
  int alias = -1;        // flat parameter whose weights and moments serve this one (same pipe rank)
  int frozen = -1;       // flat parameter of the frozen parameters of the same unit
  bool on_host = false;  // this CPU updates it, in the host's memory beside the device
  bool params_on_host = false;    // there lie its parameters, which the host or nothing changes
  bool in_gradient_ring = false;  // its gradient takes a place in turn (pipeline/gradient_ring.h)
  bool sleeps = false;  // its parameters do, where the layout's do and it is not among the first
  int ring_place = 0;   // of those that are trained, where something sleeps
  int writers = 1;      // units that add to its gradient before it is reduced
  const core::ParamTable* table = nullptr;
  core::ShardMap map = {};
  Range owned = {};  // this rank's slice
  // What this rank keeps; of an alias only the gradient.
  Range params = {};
  Range grads = {};
  Range optimizer = {};
  SlotPlace slot = {};      // of the gradient of one micro-batch
  SlotPlace incoming = {};  // of the sum of that over data ranks, or all of them, before adding
};

// The two ends of a tied matrix, as far as they are on this rank.
struct TiedEnds {
  int read = -1;  // flat parameter that the head reads beside its own; it may be a frozen one
  core::Elements gathered;  // where that begins in a slot that holds the whole head
  // Flat parameters whose gradients are added, -1: not here, or there is only one gradient.
  int embedding = -1;
  int head = -1;
  int peer = -1;             // pipe rank of the other end, where it is another
  core::Elements exchanged;  // of the gradient, between the two ends
};

// What a buffer of a store is for.
enum class Role : std::uint8_t {
  kParams,
  kSecondary,  // of what was gathered, the part that this rank keeps for its host
  kGrads,
  kCounter,  // canonical order: an accumulator beside the gradient itself, one per level
  kMoment,
  kMaster,
  kGradientSlots,  // all of them, one behind the other
  kTiedSlot,       // of the flat parameter that waits alone
  kIncoming,       // as many as gradient slots
  kTiedIncoming,
  kOtherEnd,      // the gradient that the other end of the tied matrix sends
  kDirections,    // the whole flat parameter's, where the optimizer moves matrices as a whole
  kMatrixRoom,    // what it computes them in
  kHostGradient,  // a place of a ring, in the host's memory: a gradient that came down
  kHostRounded,   // and the new parameters that go up
  kGoingUp,       // what a disk has read of parameters, before the device has it
  kBefore,  // fp32 parameters, moments and maybe gradients before an update that may be undone
};

struct Reservation {
  // kPeers: other data ranks of the host read it. kHost: one memory for all of them.
  enum class Where : std::uint8_t { kPrivate, kPeers, kHost };
  Role role = Role::kParams;
  core::Account account = core::Account::kParams;
  core::DType element = core::DType::kF32;
  core::Elements count = {};
  Where where = Where::kPrivate;
  core::Elements share = count;  // that this rank is charged
  core::Tier tier = core::Tier::kDevice;
  bool crosses = false;  // of the host's: copies between it and the device read or write it
  bool in_ring = false;  // one place of several, which flat parameters that sleep take in turn
};

// How often a rank sends: its slice, to so many others; its part of a sum, for so many, each of so
// many nodes (comm/host_layout.h). To other hosts, where data ranks are on several.
struct SentCopies {
  int slices = 0;
  int sums = 0;
  int nodes = 1;
};

struct Layout : StateRules {
  int dp_rank = 0;
  SentCopies copies;
  int counter_levels = 0;
  int head_unit = 0;
  // By index_on_rank of their unit, then the tied end, then those that are frozen.
  std::vector<FlatParam> flat_params;
  int trained = 0;  // of the flat parameters
  TiedEnds tied;
  core::Elements gather_slot;    // a whole unit, 0: no unit is gathered
  core::Elements gradient_slot;  // 0: gradients are written where they stay
  core::Elements incoming;
  core::Elements directions;              // 0: no flat parameter's are gathered
  std::vector<Reservation> reservations;  // of a role in the order of flat parameters

  int count() const { return static_cast<int>(flat_params.size()); }
  const FlatParam& at(int flat_param) const {
    FM_CHECK(flat_param >= 0 && flat_param < count(), count(),
             " flat parameters are here, and none is ", flat_param);
    return flat_params[static_cast<std::size_t>(flat_param)];
  }
  // That it is cut for this rank of so many.
  void check_ranks(int rank, int size) const {
    FM_CHECK(dp_size == size && dp_rank == rank, "the layout of data rank ", dp_rank, " of ",
             dp_size, " reached rank ", rank, " of ", size);
  }
  // Only these have a gradient and optimizer state.
  void check_trained(int flat_param) const {
    FM_CHECK(flat_param >= 0 && flat_param < trained, trained,
             " flat parameters are trained, and none is ", flat_param);
  }
  // What is added at its owner: rounds, or the gradients of every rank in them.
  int leaves() const { return single_slots > 0 ? single_slots : micros; }
  bool is_frozen(int flat_param) const { return flat_param >= trained; }
  // Where the buffers of a role sleep; of what sleeps in kNvme, the places in memory, and which one
  // a flat parameter has while it is awake.
  core::Tier tier_of(Role role) const;
  bool sleeps(Role role) const { return tier_of(role) == core::Tier::kNvme; }
  int ring_places() const;
  int ring_place(int flat_param) const { return at(flat_param).ring_place; }
  // Which of the buffers of kGrads has its gradient: places of the ring lie behind all others.
  int gradient_buffer(int flat_param) const;
  // Whether the parameters of a flat parameter follow from fp32 ones of the optimizer: are them,
  // rounded, or are a copy of the host's.
  bool has_master(int flat_param) const {
    return (has_master() || at(flat_param).on_host) && !is_frozen(flat_param);
  }
  bool has_master() const { return element != core::DType::kF32; }
  // Whether every rank, and not the owner alone, gets the sum of a gradient.
  bool sums_are_whole() const;
  // Of every reservation in the account where the rank computes, and of all of them in the host's
  // memory beside its device.
  core::Bytes charged(core::Account account) const;
  core::Bytes host_bytes() const;
  // The flat parameter that has the parameters of this one.
  int home_of(int flat_param) const {
    return at(flat_param).alias < 0 ? flat_param : at(flat_param).alias;
  }
  // Those whose gradients a unit has in the norm, in the order of the unit's whole table: tiles
  // stand where their matrix would.
  std::vector<int> normed_at(int unit) const;
  // Flat parameters that a unit reads.
  std::vector<int> read_by(int unit) const;
  // What an instruction sends to other data ranks (to other hosts, where they are on several) or to
  // the other end of the tied matrix; nothing when it is no instruction that sends, or has no need
  // to. `near`: homes of flat parameters that the ranks of a host have together.
  std::optional<core::Bytes> sent_by(const pipeline::Instruction& at,
                                     const std::set<int>& near = {}) const;
};

Layout make_layout(const LayoutInput& input, int pipe_rank, int dp_rank);

}  // namespace fm::zero
