#include "zero/layout.h"

#include <algorithm>
#include <bit>
#include <span>

#include "comm/host_layout.h"
#include "core/check.h"
#include "core/whole_table.h"
#include "offload/slice_store.h"
#include "pipeline/gradient_ring.h"
#include "pipeline/ring_places.h"

namespace fm::zero {
namespace {

using core::Account;
using core::Bytes;
using core::DType;
using core::Elements;
using core::Home;
using pipeline::Op;

// A unit may have two flat parameters, and its gradients come down before either goes up.
constexpr int kFewestHostPlaces = 2;

SentCopies copies_of(const StateRules& rules, int dp_rank) {
  const int others = rules.dp_size - 1;
  if (rules.host_of.empty()) return {others, others};
  const comm::HostLayout hosts(rules.host_of);
  if (hosts.hosts() == 1) return {others, others};
  return {hosts.hosts() - 1, static_cast<int>(hosts.clients(dp_rank).size()),
          static_cast<int>(hosts.nodes_of(hosts.host_of(dp_rank)).size())};
}

class Builder {
 public:
  Builder(const LayoutInput& input, int pipe_rank, int dp_rank)
      : input_(input), pipe_rank_(pipe_rank) {
    static_cast<StateRules&>(out_) = input.rules;
    out_.dp_rank = dp_rank;
    out_.copies = copies_of(input.rules, dp_rank);
    out_.head_unit = input.units.head();
    if (input.rules.order == core::SumOrder::kCanonical) {
      out_.counter_levels = std::bit_width(static_cast<unsigned>(out_.leaves())) - 1;
    }
  }

  Layout run() {
    const pipeline::Placement& units = input_.units;
    for (const int unit : units.units_of(pipe_rank_)) {
      const int end = units.is_tile(unit) ? units.end_of(unit) : -1;
      add_flat_param({.unit = unit, .end = end}, *input_.tables[static_cast<std::size_t>(unit)]);
    }
    if (units.tied) add_tied();
    out_.trained = out_.count();
    if (out_.awake > 0) take_ring_places();
    leave_device();
    add_frozen();
    lay_params_to_sleep();
    place_gathered();
    for (FlatParam& flat_param : trained()) place_gradient(flat_param);
    reserve_flat_params();
    reserve_slots();
    reserve_matrices();
    return std::move(out_);
  }

 private:
  bool adds_later() const {
    if (one_by_one()) return true;
    return input_.rules.plan.reduce_every_micro && input_.rules.micros > 1 &&
           input_.rules.plan.grads == Home::kOneSliceEach;
  }
  bool one_by_one() const { return input_.rules.single_slots > 0; }
  FlatParam& head_flat_param() {
    return out_
        .flat_params[static_cast<std::size_t>(input_.units.index_on_rank(input_.units.head()))];
  }

  std::span<FlatParam> trained() {
    return std::span(out_.flat_params).first(static_cast<std::size_t>(out_.trained));
  }

  Range kept(const FlatParam& flat_param, Home home) const {
    return home == Home::kEveryRank ? Range{Elements(0), flat_param.map.padded()}
                                    : flat_param.owned;
  }
  void cut(FlatParam& flat_param, const core::ParamTable& table) const {
    flat_param.table = &table;
    flat_param.map = {table.elements(), input_.rules.dp_size};
    flat_param.owned = {flat_param.map.first_of(out_.dp_rank), flat_param.map.slice()};
    if (flat_param.alias < 0) flat_param.params = kept(flat_param, input_.rules.plan.params);
  }

  void add_flat_param(FlatParam flat_param, const core::ParamTable& table) {
    cut(flat_param, table);
    flat_param.grads = kept(flat_param, input_.rules.plan.grads);
    flat_param.in_gradient_ring = input_.rules.gradients_in_ring && !flat_param.tied_end &&
                                  !pipeline::waits_for_other_end(input_.units, flat_param.unit);
    if (flat_param.alias < 0) flat_param.optimizer = kept(flat_param, input_.rules.plan.optimizer);
    out_.flat_params.push_back(flat_param);
  }
  int add_frozen_flat_param(FlatParam flat_param, const core::ParamTable& table) {
    cut(flat_param, table);
    out_.flat_params.push_back(flat_param);
    return out_.count() - 1;
  }

  void take_ring_places() {
    FM_CHECK(!out_.gradients_in_ring || out_.end_blocks == 1,
             "where gradients take the places of a ring, those of state are as many");
    const pipeline::Ring ring{.awake = out_.awake, .end_blocks = out_.end_blocks};
    for (FlatParam& flat_param : trained()) {
      const std::vector<int> places = pipeline::ring_places(input_.units, flat_param.unit, ring);
      flat_param.ring_place = flat_param.tied_end ? places.back() : places.front();
    }
  }

  // The first units keep on the device what `host_share` leaves there, as in DeepSpeed
  // (runtime/zero/stage3.py, "ratio"). Each flat parameter is in one place as a whole.
  void leave_device() {
    if (!out_.beside_device || out_.tiers.moments == core::Tier::kDevice) return;
    Elements all, before;
    for (const FlatParam& flat_param : out_.flat_params) all += flat_param.optimizer.count;
    const double stays = (1.0 - out_.host_share) * static_cast<double>(all.count());
    for (FlatParam& flat_param : out_.flat_params) {
      before += flat_param.optimizer.count;
      flat_param.on_host = flat_param.alias < 0 && flat_param.optimizer.count.count() > 0 &&
                           static_cast<double>(before.count()) > stays;
    }
  }
  bool any_on_host() const { return std::ranges::any_of(out_.flat_params, &FlatParam::on_host); }
  // Moments and master of one flat parameter, where some lie in the host's memory, which has a copy
  // of fp32 parameters as a master.
  void reserve_beside(const FlatParam& flat_param) {
    const bool has_master = out_.has_master() || flat_param.on_host;
    for (int each = 0; each <= out_.moments; ++each) {
      const bool master = each == out_.moments;
      reserve(master ? Role::kMaster : Role::kMoment, Account::kOptimizer,
              master && !has_master ? Elements(0) : flat_param.optimizer.count,
              Reservation::Where::kPrivate);
      if (!flat_param.on_host) continue;
      out_.reservations.back().tier = core::Tier::kHost;
      out_.reservations.back().crosses = master && !out_.has_master();
    }
  }
  void reserve_host_places() {
    if (!any_on_host()) return;
    Elements largest;
    for (const FlatParam& flat_param : trained()) {
      if (flat_param.on_host) largest = std::max(largest, flat_param.optimizer.count);
    }
    const auto add = [&](Role role, core::DType element) {
      out_.reservations.push_back({.role = role,
                                   .account = Account::kOptimizer,
                                   .element = element,
                                   .count = largest,
                                   .tier = core::Tier::kHost,
                                   .crosses = true});
    };
    // What is on its way to a disk has left its place before the next update.
    const int places =
        out_.sleeps(Role::kMoment) ? kFewestHostPlaces : std::max(out_.awake, kFewestHostPlaces);
    for (int place = 0; place < places; ++place) {
      add(Role::kHostGradient, DType::kF32);
      // Else they are rounded where they lie.
      const bool up = out_.has_master() && out_.tiers.params == core::Tier::kDevice;
      if (up) add(Role::kHostRounded, out_.element);
    }
  }

  // Behind all flat parameters that are trained.
  void add_frozen() {
    const pipeline::Placement& units = input_.units;
    if (input_.frozen.empty()) return;
    for (const int unit : units.units_of(pipe_rank_)) {
      const core::ParamTable* const table = input_.frozen[static_cast<std::size_t>(unit)];
      if (table == nullptr) continue;
      const int flat_param = add_frozen_flat_param({.unit = unit}, *table);
      out_.flat_params[static_cast<std::size_t>(units.index_on_rank(unit))].frozen = flat_param;
    }
    if (input_.frozen_tied == nullptr || !units.has_head(pipe_rank_)) return;
    out_.tied.read =
        units.has_embedding(pipe_rank_)
            ? out_.at(0).frozen
            : add_frozen_flat_param({.unit = units.head(), .tied_end = true}, *input_.frozen_tied);
  }

  void lay_params_to_sleep() {
    Elements until;
    for (int index = 0; index < out_.count(); ++index) {
      FlatParam& flat_param = out_.flat_params[static_cast<std::size_t>(index)];
      until += flat_param.params.count;
      const bool here = flat_param.params.count.count() > 0;
      const bool leaves = !out_.beside_device || flat_param.on_host || out_.is_frozen(index);
      if (!here || !leaves || out_.tiers.params == core::Tier::kDevice) continue;
      flat_param.sleeps = out_.sleeps(Role::kParams) && until > out_.params_in_memory;
      flat_param.params_on_host = out_.beside_device && !flat_param.sleeps;
    }
  }

  // The matrix is the embedding's, whose flat parameter is the first where it is here.
  void add_tied() {
    const pipeline::Placement& units = input_.units;
    const bool embedding = units.has_embedding(pipe_rank_);
    const bool head = units.has_head(pipe_rank_);
    TiedEnds& tied = out_.tied;
    if (units.one_tied_gradient) {
      if (embedding) out_.flat_params[0].writers = 2;
      if (head) tied.read = 0;
      return;
    }
    if (embedding) tied.embedding = 0;
    FM_CHECK(input_.tied != nullptr && input_.tied->elements() == input_.tables[0]->elements(),
             "both ends of a tied matrix are cut alike, and the embedding's table has ",
             input_.tables[0]->elements().count(), " elements");
    if (head) {
      tied.read = tied.head = out_.count();
      add_flat_param(
          {.unit = units.head(), .tied_end = true, .alias = units.both_ends_on_one_rank() ? 0 : -1},
          *input_.tied);
    }
    if (embedding == head) return;
    tied.peer = units.owner_of(embedding ? units.head() : 0);
    tied.exchanged = out_.at(embedding ? tied.embedding : tied.head).optimizer.count;
  }

  // Units are gathered one at a time, frozen parameters behind the others, a tied head with the
  // matrix behind both.
  void place_gathered() {
    if (input_.rules.plan.params != Home::kOneSliceEach) return;
    for (const FlatParam& flat_param : trained()) {
      if (!flat_param.tied_end) out_.gather_slot = std::max(out_.gather_slot, gathered(flat_param));
    }
    if (out_.tied.read >= 0) {
      out_.tied.gathered = gathered(head_flat_param());
      const Elements whole = out_.tied.gathered + out_.at(out_.tied.read).map.padded();
      out_.gather_slot = std::max(out_.gather_slot, whole);
    }
    if (out_.sleeps(Role::kParams)) out_.gather_slot = in_pages(out_.gather_slot);
  }
  // A disk reads into whole pages.
  Elements in_pages(Elements count) const {
    return core::round_up(count, Elements(offload::kPage / core::size_of(out_.element)));
  }
  Elements gathered(const FlatParam& flat_param) const {
    const Elements frozen =
        flat_param.frozen < 0 ? Elements(0) : out_.at(flat_param.frozen).map.padded();
    return flat_param.map.padded() + frozen;
  }

  // The head's end of a tied matrix lies behind the head's own flat parameter.
  void place_gradient(FlatParam& flat_param) {
    if (!input_.rules.plan.reduce_every_micro) return;
    const bool in_place = input_.rules.plan.own_part_in_place() && !one_by_one();
    flat_param.slot.own_part_in_place = in_place;
    place(flat_param, flat_param.slot, true, out_.gradient_slot, [&](const FlatParam& of) {
      return in_place ? of.map.padded() - of.map.slice() : of.map.padded();
    });
    if (!adds_later()) return;
    // Sums that arrive one after the other take one place. Own parts that are written in place wait
    // there, too, and so do reductions that are under way together.
    place(flat_param, flat_param.incoming, in_place || input_.rules.gradient_slots > 1,
          out_.incoming, [&](const FlatParam& of) {
            return one_by_one() ? of.grads.count * out_.dp_size : of.map.slice();
          });
  }

  template <class Size>
  void place(const FlatParam& flat_param, SlotPlace& at, bool apart, Elements& largest,
             const Size& size) {
    at.count = size(flat_param);
    at.alone = apart && flat_param.writers > 1;
    if (apart && flat_param.tied_end) at.first = size(head_flat_param());
    if (!at.alone) largest = std::max(largest, at.first + at.count);
  }

  void reserve_flat_params() {
    using Where = Reservation::Where;
    const bool once_per_host = input_.rules.plan.params == Home::kOncePerHost;
    for (const FlatParam& flat_param : out_.flat_params) {
      const bool common = once_per_host && flat_param.alias < 0;
      const Elements kept = flat_param.sleeps ? Elements(0) : flat_param.params.count;
      const Elements there = common ? flat_param.map.padded() : kept;
      out_.reservations.push_back({Role::kParams, Account::kParams, input_.rules.element, there,
                                   common ? Where::kHost : Where::kPrivate, kept});
      if (flat_param.params_on_host) {
        out_.reservations.back().tier = core::Tier::kHost;
        out_.reservations.back().crosses = true;
      }
      if (out_.plan.secondary == 1) continue;
      FM_CHECK(out_.dp_size % out_.plan.secondary == 0, out_.dp_size, " data ranks on hosts of ",
               out_.plan.secondary);
      const Elements part(flat_param.map.padded().count() / out_.plan.secondary);
      out_.reservations.push_back({Role::kSecondary, Account::kParams, input_.rules.element,
                                   flat_param.alias < 0 ? part : Elements(0), Where::kPeers});
    }
    for (const FlatParam& flat_param : trained()) {
      if (!flat_param.in_gradient_ring) reserve_gradient(flat_param.grads.count);
      if (any_on_host() && !out_.sleeps(Role::kMoment)) {
        reserve_beside(flat_param);
        continue;
      }
      if (!out_.sleeps(Role::kMoment)) reserve_state(Role::kMoment, flat_param.optimizer.count);
      if (!out_.sleeps(Role::kMaster)) reserve_state(Role::kMaster, flat_param.optimizer.count);
    }
    reserve_gradient_ring();
    reserve_rings();
    reserve_host_places();
    out_.undoes = out_.undoes && pipe_rank_ + 1 < input_.units.pipe_ranks();
    if (!out_.undoes) return;
    const int values = 1 + out_.moments + (out_.keeps_gradients ? 1 : 0);
    for (const FlatParam& flat_param : trained()) {
      reserve(Role::kBefore, Account::kOptimizer, flat_param.optimizer.count * values,
              Where::kPrivate);
    }
  }

  // Of one flat parameter, or of one place in the ring.
  void reserve_gradient(Elements count) {
    reserve(Role::kGrads, Account::kGrads, count, Reservation::Where::kPeers);
    for (int level = 0; level < out_.counter_levels; ++level) {
      reserve(Role::kCounter, Account::kScratch, count, Reservation::Where::kPrivate);
    }
  }
  void reserve_gradient_ring() {
    Elements largest;
    for (const FlatParam& flat_param : trained()) {
      if (flat_param.in_gradient_ring) largest = std::max(largest, flat_param.grads.count);
    }
    for (int place = 0; largest.count() > 0 && place < out_.ring_places(); ++place) {
      const std::size_t first = out_.reservations.size();
      reserve_gradient(largest);
      for (std::size_t at = first; at < out_.reservations.size(); ++at) {
        out_.reservations[at].in_ring = true;
      }
    }
  }
  void reserve_state(Role role, Elements count) {
    const bool master = role == Role::kMaster;
    const int masters = out_.has_master() || any_on_host() ? 1 : 0;
    for (int each = 0; each < (master ? masters : out_.moments); ++each) {
      reserve(role, Account::kOptimizer, count, Reservation::Where::kPrivate);
      out_.reservations.back().in_ring = out_.sleeps(role);
      if (!any_on_host()) continue;
      out_.reservations.back().tier = core::Tier::kHost;
      out_.reservations.back().crosses = master && !out_.has_master();
    }
  }
  // A place is as large as the largest flat parameter that takes it: by place.
  template <class Size>
  std::vector<Elements> place_sizes(const Size& size) {
    std::vector<Elements> out(static_cast<std::size_t>(out_.ring_places()));
    for (const FlatParam& flat_param : trained()) {
      Elements& largest = out[static_cast<std::size_t>(flat_param.ring_place)];
      largest = std::max(largest, size(flat_param));
    }
    return out;
  }
  void reserve_rings() {
    for (const Role role : {Role::kMoment, Role::kMaster}) {
      if (!out_.sleeps(role)) continue;
      const auto size = [](const FlatParam& flat_param) { return flat_param.optimizer.count; };
      for (const Elements count : place_sizes(size)) reserve_state(role, count);
    }
    if (out_.sleeps(Role::kParams)) reserve_param_ring();
  }
  void reserve_param_ring() {
    const auto size = [](const FlatParam& flat_param) {
      return flat_param.sleeps ? flat_param.params.count : Elements(0);
    };
    for (const Elements count : place_sizes(size)) {
      add_param_places({.role = Role::kParams, .count = count}, 1);
    }
    if (!out_.beside_device) return;
    Elements largest;
    for (const FlatParam& flat_param : out_.flat_params) {
      if (flat_param.sleeps) largest = std::max(largest, flat_param.params.count);
    }
    add_param_places({.role = Role::kGoingUp, .count = largest, .crosses = true}, out_.awake);
  }
  void add_param_places(Reservation like, int places) {
    like.account = Account::kParams;
    like.element = out_.element;
    like.count = like.share = in_pages(like.count);
    like.tier = out_.beside_device ? core::Tier::kHost : core::Tier::kDevice;
    like.in_ring = true;
    out_.reservations.insert(out_.reservations.end(), static_cast<std::size_t>(places), like);
  }

  void reserve_slots() {
    const auto peers = Reservation::Where::kPeers;
    const int slots = input_.rules.gradient_slots;
    reserve(Role::kGradientSlots, Account::kSlots, out_.gradient_slot * slots, peers);
    reserve(Role::kIncoming, Account::kScratch, out_.incoming * slots, peers);
    for (const FlatParam& flat_param : trained()) {
      if (flat_param.slot.alone)
        reserve(Role::kTiedSlot, Account::kSlots, flat_param.slot.count, peers);
      if (!flat_param.incoming.alone) continue;
      reserve(Role::kTiedIncoming, Account::kScratch, flat_param.incoming.count, peers);
    }
    reserve(Role::kOtherEnd, Account::kScratch, out_.tied.exchanged, Reservation::Where::kPrivate);
  }

  void reserve_matrices() {
    const optim::MatrixRule* const rule = input_.rules.matrices;
    if (rule == nullptr) return;
    Elements room;
    for (const FlatParam& flat_param : trained()) {
      for (const core::ParamEntry& entry : flat_param.table->entries()) {
        if (!rule->moves(entry)) continue;
        room = std::max(room, rule->room(entry.shape[0], entry.shape[1]));
        if (input_.rules.plan.optimizer == Home::kEveryRank || out_.dp_size == 1) continue;
        out_.directions = std::max(out_.directions, flat_param.map.padded());
      }
    }
    reserve(Role::kDirections, Account::kScratch, out_.directions, Reservation::Where::kPrivate);
    reserve(Role::kMatrixRoom, Account::kScratch, room, Reservation::Where::kPrivate);
  }

  void reserve(Role role, Account account, Elements count, Reservation::Where where) {
    out_.reservations.push_back({role, account, DType::kF32, count, where});
  }

  const LayoutInput& input_;
  int pipe_rank_;
  Layout out_;
};

void check_input(const LayoutInput& input, int pipe_rank, int dp_rank) {
  const auto units = static_cast<std::size_t>(input.units.count_with_tiles());
  FM_CHECK(input.tables.size() == units && (input.frozen.empty() || input.frozen.size() == units),
           "every unit needs a table, and of frozen parameters all need one or none: ", units,
           " units, ", input.tables.size(), " tables, ", input.frozen.size(), " frozen ones");
  FM_CHECK(pipe_rank >= 0 && pipe_rank < input.units.pipe_ranks(), "units are placed on ",
           input.units.pipe_ranks(), " pipe ranks, and none is ", pipe_rank);
  FM_CHECK(dp_rank >= 0 && dp_rank < input.rules.dp_size, "slices are cut for ",
           input.rules.dp_size, " data ranks, and none is ", dp_rank);
}

Bytes f32(Elements elements) { return core::bytes_of(elements, DType::kF32); }

}  // namespace

Layout make_layout(const LayoutInput& input, int pipe_rank, int dp_rank) {
  check_input(input, pipe_rank, dp_rank);
  return Builder(input, pipe_rank, dp_rank).run();
}

Bytes Layout::charged(Account account) const {
  Bytes out;
  for (const Reservation& at : reservations) {
    const bool here = at.tier != core::Tier::kHost;
    if (here && at.account == account) out += core::bytes_of(at.share, at.element);
  }
  return out;
}

Bytes Layout::host_bytes() const {
  Bytes out;
  for (const Reservation& at : reservations) {
    if (at.tier == core::Tier::kHost) out += core::bytes_of(at.share, at.element);
  }
  return out;
}

int Layout::ring_places() const {
  int places = 0;
  for (int flat_param = 0; awake > 0 && flat_param < trained; ++flat_param) {
    places = std::max(places, ring_place(flat_param) + 1);
  }
  return places;
}

int Layout::gradient_buffer(int flat_param) const {
  const bool in_ring = at(flat_param).in_gradient_ring;
  int others = 0;
  for (int before = 0; before < (in_ring ? trained : flat_param); ++before) {
    if (!at(before).in_gradient_ring) ++others;
  }
  return in_ring ? others + ring_place(flat_param) : others;
}

core::Tier Layout::tier_of(Role role) const {
  if (role == Role::kMoment) return tiers.moments;
  if (role == Role::kMaster) return tiers.masters;
  if (role == Role::kGrads) return tiers.grads;
  return role == Role::kParams ? tiers.params : core::Tier::kDevice;
}

std::vector<int> Layout::normed_at(int unit) const {
  std::vector<int> tiles, own;
  for (int flat_param = 0; flat_param < trained; ++flat_param) {
    const FlatParam& flat = at(flat_param);
    if (flat.end == unit) tiles.push_back(flat_param);
    if (flat.unit == unit && !flat.tied_end) own.push_back(flat_param);
  }
  if (tiles.empty() || own.empty()) return own;
  const bool before =
      unit == head_unit && core::lies_before(*at(own.front()).table, *at(tiles.front()).table);
  if (before) std::swap(tiles, own);
  tiles.insert(tiles.end(), own.begin(), own.end());
  return tiles;
}

std::vector<int> Layout::read_by(int unit) const {
  std::vector<int> out;
  for (int flat_param = 0; flat_param < count(); ++flat_param) {
    const bool read = flat_param == tied.read && unit == head_unit;
    if (at(flat_param).unit == unit || read) out.push_back(flat_param);
  }
  return out;
}

std::optional<Bytes> Layout::sent_by(const pipeline::Instruction& at,
                                     const std::set<int>& near) const {
  std::optional<Bytes> out;
  const auto add = [&](Bytes bytes) { out = out.value_or(Bytes(0)) + bytes; };
  if (at.op == Op::kReduceTied && tied.peer >= 0) add(f32(tied.exchanged));
  for (int flat_param = 0; flat_param < count(); ++flat_param) {
    const bool here = this->at(flat_param).unit == at.unit;
    const bool own = here && !is_frozen(flat_param);
    const bool read = here || (flat_param == tied.read && at.unit == head_unit);
    const core::ShardMap& map = this->at(flat_param).map;
    const Bytes nodes =
        comm::travel_bytes(gradient_travel, map.slice() * copies.nodes, DType::kF32);
    const Bytes sums = comm::travel_bytes(gradient_travel, map.slice(), DType::kF32);
    const Bytes scatter = nodes * copies.sums;
    const Bytes gathered = comm::travel_bytes(weight_travel, map.slice(), element) * copies.slices;
    const Bytes published = core::bytes_of(map.slice(), element) * copies.slices;
    if (at.op == Op::kGather && read) {
      add(near.contains(home_of(flat_param)) ? Bytes(0) : gathered);
    }
    const Bytes whole =
        single_slots > 0 ? sums * copies.slices * dp_size : scatter + sums * copies.slices;
    if (at.op == Op::kReduce && own) add(sums_are_whole() ? whole : scatter);
    const bool publishes = plan.params != Home::kOncePerHost && this->at(flat_param).alias < 0;
    if (at.op == Op::kPublish && own && publishes) add(published);
  }
  return out;
}

bool Layout::sums_are_whole() const {
  return plan.optimizer == Home::kEveryRank ||
         (plan.reduce_every_micro && plan.grads == Home::kEveryRank);
}

}  // namespace fm::zero
