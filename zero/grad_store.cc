#include "zero/grad_store.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "core/check.h"
#include "core/trace.h"
#include "kernels/pointwise/moves.h"
#include "kernels/pointwise/sums.h"

namespace fm::zero {

using core::DType;
using core::Elements;
using core::Home;

namespace {

constexpr std::int64_t kPart = 4096;  // elements: whole blocks of the norm that stay in the cache

// Parts are one event of a trace together.
constexpr core::TraceForm kSquares = {
    "squared_norm", core::TraceKind::kKernel, {"elements", "bytes"}};
constexpr core::TraceForm kAddAndSquares = {
    "add+squared_norm", core::TraceKind::kKernel, {"elements", "bytes"}};

// Adds squares of a sum as its parts become final (zero/global_norm.h, order "fast").
class SquareSum : public SumOfSquares {
 public:
  SquareSum(const core::Work& work, const float* sum) : work_(work), sum_(sum) {}

  void visit(Elements first, Elements count) override {
    const core::TraceScope scope(kSquares, {count.count(), 4 * count.count()});
    for (std::int64_t at = 0; at < count.count(); at += kPart) {
      const std::int64_t here = std::min(kPart, count.count() - at);
      double blocks[kPart / kernels::kNormBlock];
      const auto used = static_cast<std::size_t>(kernels::norm_blocks(here));
      kernels::squared_norm(work_, {sum_ + (first.count() + at), static_cast<std::size_t>(here)},
                            std::span(blocks).first(used));
      for (std::size_t block = 0; block < used; ++block) total_ += blocks[block];
    }
  }
  void visit(Elements /*first*/, Elements /*count*/, std::span<const double> squares) override {
    for (const double block : squares) total_ += block;
  }

 private:
  const core::Work& work_;
  const float* sum_;
};

// Adds what arrived from a micro-batch to the sum of those before, part by part as it becomes
// final, with the squares of the result.
class Addition : public SumOfSquares {
 public:
  Addition(const core::Work& work, const float* arrived, float* sum)
      : work_(work), arrived_(arrived), sum_(sum) {}

  void visit(Elements first, Elements count) override {
    const core::TraceScope scope(kAddAndSquares, {count.count(), 12 * count.count()});
    const std::int64_t last = (first + count).count();
    for (std::int64_t at = first.count(); at < last; at += kPart) {
      const std::int64_t here = std::min(kPart, last - at);
      double blocks[kPart / kernels::kNormBlock];
      const auto squares =
          std::span(blocks).first(static_cast<std::size_t>(kernels::norm_blocks(here)));
      kernels::add_squares(work_, here, arrived_ + at, sum_ + at, squares);
      for (const double block : squares) total_ += block;
    }
  }

 private:
  const core::Work& work_;
  const float* arrived_;
  float* sum_;
};

// Elements [first, first + count), as the layout places them in a buffer.
std::span<float> part_of(std::span<float> buffer, Elements first, Elements count) {
  FM_CHECK(first.count() >= 0 && (first + count).count() <= std::ssize(buffer), "elements ",
           first.count(), " to ", (first + count).count(), " do not lie in a buffer of ",
           buffer.size());
  return buffer.subspan(static_cast<std::size_t>(first.count()),
                        static_cast<std::size_t>(count.count()));
}

std::int64_t blocks_of(const FlatParam& flat_param) {
  return kernels::norm_blocks(flat_param.map.slice().count());
}

// Of a device: where the squares of all slices lie that are read together. A tied matrix has them
// at the embedding's place.
struct SquarePlaces {
  explicit SquarePlaces(const Layout& layout) {
    for (int flat_param = 0; flat_param < layout.trained; ++flat_param) {
      const FlatParam& at = layout.at(flat_param);
      const bool here = !at.tied_end && !at.in_gradient_ring;
      places.push_back(here ? all : -1);
      if (here) all += blocks_of(at);
    }
  }
  std::vector<std::int64_t> places;
  std::int64_t all = 0;
};

std::int64_t most_blocks(const Layout& layout) {
  std::int64_t most = 0;
  for (int flat_param = 0; flat_param < layout.trained; ++flat_param) {
    most = std::max(most, blocks_of(layout.at(flat_param)));
  }
  return most;
}

std::size_t flags_on_device(const Layout& layout) {
  return static_cast<std::size_t>(std::max(layout.trained, 1));
}

}  // namespace

void clear_gaps(const core::Work& work, const FlatParam& flat_param, float* whole) {
  FM_CHECK(flat_param.table->elements() == flat_param.map.elements, "a map of ",
           flat_param.map.elements.count(), " elements does not cut a table of ",
           flat_param.table->elements().count());
  Elements written;
  for (const core::ParamEntry& entry : flat_param.table->entries()) {
    kernels::clear(work, (entry.offset - written).count(), whole + written.count());
    written = entry.offset + entry.numel;
  }
  kernels::clear(work, (flat_param.map.padded() - written).count(), whole + written.count());
}

GradStore::GradStore(const Layout& layout, const core::RankMemory& memory, comm::Communicator& dp,
                     bool waits_later)
    : layout_(layout),
      dp_(dp),
      buffers_(reserve(layout, Role::kGrads, memory, &dp)),
      counters_(reserve(layout, Role::kCounter, memory, nullptr)),
      incoming_(reserve(layout, Role::kIncoming, memory, &dp)),
      tied_incoming_(reserve(layout, Role::kTiedIncoming, memory, &dp)),
      slot_(reserve(layout, Role::kGradientSlots, memory, &dp)),
      tied_slot_(reserve(layout, Role::kTiedSlot, memory, &dp)),
      slot_of_flat_param_(layout.flat_params.size(), 0),
      waits_later_(waits_later),
      written_(layout.flat_params.size(), false),
      squares_(layout.flat_params.size()),
      kept_blocks_(layout.flat_params.size()),
      kept_reaches_(layout.flat_params.size()),
      taken_(layout.flat_params.size(), false),
      reaches_(memory, memory.source.of_host() ? 1 : flags_on_device(layout)) {
  check_ranks(layout, dp);
  for (int flat_param = 0; flat_param < layout.trained; ++flat_param) {
    buffer_of_.push_back(static_cast<std::size_t>(layout.gradient_buffer(flat_param)));
  }
  if (!memory.source.of_host()) {
    SquarePlaces device(layout);
    places_ = std::move(device.places);
    beside_ = device.all;
    for (std::size_t index = 0; index < places_.size(); ++index) {
      repeats_.push_back(layout.flat_params[index].table->repeats());
    }
  }
  blocks_ = BlockSquares(memory, beside_ + most_blocks(layout));
  if (layout.plan.reduce_every_micro) make_slots();
}

core::Bytes GradStore::answers_on_device(const Layout& layout) {
  return BlockSquares::on_device(SquarePlaces(layout).all + most_blocks(layout)) +
         core::Bytes(static_cast<std::int64_t>(flags_on_device(layout) * sizeof(std::int32_t)));
}

void GradStore::make_slots() {
  for (int flat_param = 0; flat_param < layout_.trained; ++flat_param) {
    const SlotPlace& at = layout_.at(flat_param).slot;
    for (int slot = 0; slot < layout_.gradient_slots; ++slot) {
      const std::span<float> buffer = (at.alone ? tied_slot_ : slot_).front().floats();
      const Elements first = at.alone ? Elements(0) : layout_.gradient_slot * slot + at.first;
      float* const others = part_of(buffer, first, at.count).data();
      Slots slots;
      slots.first = slot_at(flat_param, others, arrival(flat_param, slot, 0));
      if (layout_.micros > 1)
        slots.later = slot_at(flat_param, others, arrival(flat_param, slot, 1));
      slots_.push_back(std::move(slots));
    }
  }
}

GradStore::Slot GradStore::slot_at(int flat_param, float* others, float* own) {
  if (!layout_.at(flat_param).slot.own_part_in_place) return {others, nullptr};
  const core::Bytes part = core::bytes_of(layout_.at(flat_param).map.slice(), DType::kF32);
  Slot slot;
  slot.joined = dp_.memory().join({others, own, part, layout_.dp_size, layout_.dp_rank});
  slot.whole = static_cast<float*>(slot.joined->data());
  return slot;
}

const GradStore::Slot& GradStore::slot(int flat_param, int micro) const {
  const int index = flat_param * layout_.gradient_slots + slot_of(flat_param);
  const Slots& slots = slots_[static_cast<std::size_t>(index)];
  return micro == 0 ? slots.first : slots.later;
}

int GradStore::slot_of(int flat_param) const {
  const bool behind = layout_.at(flat_param).tied_end;  // beside the head's own flat parameter
  return slot_of_flat_param_[static_cast<std::size_t>(behind ? flat_param - 1 : flat_param)];
}

void GradStore::take_slot(const core::Work& work, int flat_param) {
  if (layout_.at(flat_param).tied_end) return;
  if (layout_.at(flat_param).slot.alone)
    return finish_up_to(work, &Reduction::flat_param, flat_param);
  last_slot_ = (last_slot_ + 1) % layout_.gradient_slots;
  finish_up_to(work, &Reduction::slot, last_slot_);
  slot_of_flat_param_[static_cast<std::size_t>(flat_param)] = last_slot_;
}

float* GradStore::arrival(int flat_param, int slot, int micro) {
  const bool canonical = layout_.order == core::SumOrder::kCanonical;
  const bool one_by_one = layout_.single_slots > 0;
  const bool first = layout_.micros == 1 || (!canonical && micro == 0);
  if (first && !one_by_one) return kept(flat_param).data();
  if (layout_.plan.grads == Home::kEveryRank && !one_by_one) return nullptr;  // summed in its slot
  const SlotPlace& at = layout_.at(flat_param).incoming;
  const Elements place = at.alone ? Elements(0) : layout_.incoming * slot + at.first;
  return part_of((at.alone ? tied_incoming_ : incoming_).front().floats(), place, at.count).data();
}

void GradStore::begin_step() {
  FM_CHECK(under_way_.empty(), "reductions of the last step are under way");
  std::fill(written_.begin(), written_.end(), false);
  for (std::optional<double>& square : squares_) square.reset();
  for (std::vector<double>& blocks : kept_blocks_) blocks.clear();
  for (std::optional<bool>& reaches : kept_reaches_) reaches.reset();
  std::fill(taken_.begin(), taken_.end(), false);
}

GradStore::Destination GradStore::destination(const core::Work& work, int flat_param, int micro) {
  layout_.check_trained(flat_param);
  FM_CHECK(micro >= 0 && micro < layout_.micros, "a step has ", layout_.micros,
           " micro-batches, and none is ", micro);
  const auto index = static_cast<std::size_t>(flat_param);
  const bool assign = !written_[index];
  written_[index] = true;
  if (!layout_.plan.reduce_every_micro) {
    float* const whole = kept(flat_param).data();
    const FlatParam& at = layout_.at(flat_param);
    if (assign && at.in_gradient_ring) clear_gaps(work, at, whole);
    return {whole, assign};
  }
  if (assign) take_slot(work, flat_param);
  float* const whole = slot(flat_param, micro).whole;
  if (assign) clear_gaps(work, layout_.at(flat_param), whole);
  return {whole, assign};
}

void GradStore::changed(int flat_param) {
  layout_.check_trained(flat_param);
  squares_[static_cast<std::size_t>(flat_param)].reset();
  taken_[static_cast<std::size_t>(flat_param)] = false;
}

void GradStore::take_squares(const core::Work& work) {
  bool any = false;
  for (std::size_t index = 0; index < places_.size(); ++index) {
    const bool known = taken_[index] || squares_[index] || !kept_blocks_[index].empty();
    if (known || places_[index] < 0) continue;
    const auto flat_param = static_cast<int>(index);
    FM_CHECK(!is_under_way(flat_param), "the sum of flat parameter ", flat_param, " is under way");
    const FlatParam& at = layout_.at(flat_param);
    blocks_.put(work, at.owned.first, slice(flat_param), repeats_[index], places_[index]);
    taken_[index] = any = true;
  }
  if (any) all_squares_ = blocks_.read(work, beside_);
}

double GradStore::squared(const core::Work& work, int flat_param) {
  FM_CHECK(!is_under_way(flat_param), "the sum of flat parameter ", flat_param,
           " is read while it is under way");
  std::optional<double>& square = squares_[static_cast<std::size_t>(flat_param)];
  if (!square) {
    const std::span<const double> blocks = block_squares(work, flat_param, {});
    square = std::accumulate(blocks.begin(), blocks.end(), 0.0);
  }
  return *square;
}

std::span<const double> GradStore::block_squares(const core::Work& work, int flat_param,
                                                 std::span<const core::FlatRange> repeats) {
  const auto index = static_cast<std::size_t>(flat_param);
  if (!kept_blocks_[index].empty()) return kept_blocks_[index];
  const FlatParam& at = layout_.at(flat_param);
  // Repeats were left out.
  if (taken_[index] && (!repeats.empty() || repeats_[index].empty())) {
    return all_squares_.subspan(static_cast<std::size_t>(places_[index]),
                                static_cast<std::size_t>(blocks_of(at)));
  }
  const std::int64_t put = blocks_.put(work, at.owned.first, slice(flat_param), repeats, beside_);
  return blocks_.read(work, put, beside_);
}

void GradStore::keep_squares(const core::Work& work, int flat_param, Squares squares,
                             std::span<const core::FlatRange> repeats) {
  FM_CHECK(!is_under_way(flat_param), "the sum of flat parameter ", flat_param, " is under way");
  if (squares == Squares::kBlocks) {
    const std::span<const double> blocks = block_squares(work, flat_param, repeats);
    kept_blocks_[static_cast<std::size_t>(flat_param)].assign(blocks.begin(), blocks.end());
  } else {
    squared(work, flat_param);
  }
}

bool GradStore::is_under_way(int flat_param) const {
  return std::ranges::find(under_way_, flat_param, &Reduction::flat_param) != under_way_.end();
}

bool GradStore::may_reach(const core::Work& work, int flat_param, float limit) {
  return !(squared(work, flat_param) < double{limit} * limit);
}

bool GradStore::any_reached(const core::Work& work, std::size_t asked) {
  return std::ranges::count(reaches_.read(work, asked), 1) > 0;
}

bool GradStore::reaches(const core::Work& work, int flat_param, float limit) {
  if (!may_reach(work, flat_param, limit)) return false;
  kernels::any_reaches(work, slice(flat_param), limit, reaches_.place().data());
  return any_reached(work, 1);
}

void GradStore::keep_reaches(const core::Work& work, int flat_param, float limit) {
  kept_reaches_[static_cast<std::size_t>(flat_param)] = reaches(work, flat_param, limit);
}

bool GradStore::any_reaches(const core::Work& work, float limit) {
  take_squares(work);
  std::size_t asked = 0;
  for (int flat_param = 0; flat_param < layout_.trained; ++flat_param) {
    const std::optional<bool>& kept = kept_reaches_[static_cast<std::size_t>(flat_param)];
    if (kept && *kept) return true;
    if (kept || !may_reach(work, flat_param, limit)) continue;
    kernels::any_reaches(work, slice(flat_param), limit, &reaches_.place()[asked++]);
    if (asked < reaches_.size()) continue;
    if (any_reached(work, std::exchange(asked, 0))) return true;
  }
  return any_reached(work, asked);
}

std::span<float> GradStore::kept(int flat_param) {
  layout_.check_trained(flat_param);
  const auto count = static_cast<std::size_t>(layout_.at(flat_param).grads.count.count());
  return buffers_[buffer_of_[static_cast<std::size_t>(flat_param)]].floats().first(count);
}

std::span<float> GradStore::slice(int flat_param) {
  const bool whole_here = layout_.plan.grads == Home::kEveryRank;
  const Range& owned = layout_.at(flat_param).owned;
  return part_of(kept(flat_param), whole_here ? owned.first : Elements(0), owned.count);
}

void GradStore::reduce(const core::Work& work, int flat_param, int micro) {
  const bool each = layout_.plan.reduce_every_micro;
  FM_CHECK(each ? micro >= 0 && micro < layout_.micros : micro < 0, "the plan reduces ",
           each ? "each micro-batch" : "once per step", ", not micro-batch ", micro);
  layout_.check_trained(flat_param);
  FM_CHECK(written_[static_cast<std::size_t>(flat_param)], "flat parameter ", flat_param,
           " is reduced before its gradient is written");
  // Its earlier micro-batches are added first.
  finish_up_to(work, &Reduction::flat_param, flat_param);
  under_way_.push_back(each ? reduce_micro(work, flat_param, micro)
                            : reduce_once(work, flat_param));
  if (!waits_later_) settle(work);
}

void GradStore::settle(const core::Work& work) { finish_first(work, std::ssize(under_way_)); }

void GradStore::settle(const core::Work& work, int flat_param) {
  finish_up_to(work, &Reduction::flat_param, flat_param);
}

void GradStore::finish_first(const core::Work& work, std::ptrdiff_t count) {
  for (; count > 0; --count) {
    finish(work, under_way_.front());
    under_way_.pop_front();
  }
}

void GradStore::finish_up_to(const core::Work& work, int Reduction::*place, int value) {
  const auto last = std::ranges::find(under_way_.rbegin(), under_way_.rend(), value, place);
  finish_first(work, under_way_.rend() - last);
}

void GradStore::finish(const core::Work& work, Reduction& reduction) {
  reduction.pending.wait(work);
  const bool canonical = layout_.order == core::SumOrder::kCanonical;
  if (reduction.adds_to != nullptr) {
    kernels::add(work, layout_.at(reduction.flat_param).map.slice().count(), reduction.arrived,
                 reduction.adds_to);
  }
  if (canonical && reduction.micro >= 0) carry_round(work, reduction);
  if (reduction.sum == nullptr) return;
  squares_[static_cast<std::size_t>(reduction.flat_param)] = reduction.sum->total();
}

GradStore::Reduction GradStore::reduce_micro(const core::Work& work, int flat_param, int micro) {
  written_[static_cast<std::size_t>(flat_param)] = false;
  const bool canonical = layout_.order == core::SumOrder::kCanonical;
  float* const whole = slot(flat_param, micro).whole;
  Reduction out{.flat_param = flat_param, .micro = micro};
  if (!layout_.at(flat_param).slot.alone) out.slot = slot_of(flat_param);
  if (layout_.single_slots > 0) {
    const core::ShardMap& map = layout_.at(flat_param).map;
    const comm::ConstSpan own = {whole, map.padded(), DType::kF32};
    const Elements all = layout_.at(flat_param).grads.count * layout_.dp_size;
    out.arrived = arrival(flat_param, slot_of(flat_param), micro);
    const comm::Span into = {out.arrived, all, DType::kF32};
    out.pending = layout_.plan.grads == Home::kEveryRank ? dp_.all_gather(own, into)
                                                         : dp_.all_to_all(own, into);
    return out;
  }
  if (layout_.plan.grads == Home::kEveryRank) {
    FM_CHECK(canonical,
             "only the canonical order reduces a gradient that every rank keeps so often");
    out.arrived = whole;
    out.pending = dp_.all_reduce({whole, layout_.at(flat_param).map.padded(), DType::kF32});
    return out;
  }
  out.arrived = arrival(flat_param, slot_of(flat_param), micro);
  const bool in_place = layout_.at(flat_param).slot.own_part_in_place;
  float* const into = in_place ? whole + layout_.at(flat_param).owned.first.count() : out.arrived;
  const bool adds = !canonical && micro > 0;  // else it arrives where it is kept, or is carried
  if (work.queue != nullptr) {
    out.adds_to = adds ? kept(flat_param).data() : nullptr;
  } else if (adds) {
    out.sum = std::make_unique<Addition>(work, into, kept(flat_param).data());
  } else if (!canonical) {
    out.sum = std::make_unique<SquareSum>(work, into);
  }
  out.pending = reduce_scatter(flat_param, whole, into, out.sum.get());
  return out;
}

GradStore::Reduction GradStore::reduce_once(const core::Work& work, int flat_param) {
  const core::ShardMap& map = layout_.at(flat_param).map;
  const comm::Span all = {kept(flat_param).data(), map.padded(), DType::kF32};
  Reduction out{.flat_param = flat_param};
  if (layout_.plan.optimizer == Home::kEveryRank) {
    out.pending = dp_.all_reduce(all);
  } else {
    float* const own = slice(flat_param).data();
    if (work.queue == nullptr) out.sum = std::make_unique<SquareSum>(work, own);
    out.pending = reduce_scatter(flat_param, kept(flat_param).data(), own, out.sum.get());
  }
  return out;
}

comm::Pending GradStore::reduce_scatter(int flat_param, const float* whole, float* into,
                                        comm::SumVisitor* visitor) {
  const core::ShardMap& map = layout_.at(flat_param).map;
  return dp_.reduce_scatter_to({whole, map.padded(), DType::kF32}, {into, map.slice(), DType::kF32},
                               visitor);
}

float* GradStore::level(int flat_param, int index) {
  if (index == 0) return kept(flat_param).data();
  FM_CHECK(index <= layout_.counter_levels, "a counter of ", layout_.counter_levels,
           " levels beside the gradient has no level ", index);
  const auto levels = static_cast<std::size_t>(layout_.counter_levels);
  const std::size_t first = buffer_of_[static_cast<std::size_t>(flat_param)] * levels;
  return counters_[first + static_cast<std::size_t>(index) - 1].f32();
}

// The sum of a round, or what its ranks sent; the last round may be short of some.
void GradStore::carry_round(const core::Work& work, const Reduction& round) {
  const int flat_param = round.flat_param;
  if (layout_.single_slots == 0) return carry(work, flat_param, round.micro, round.arrived);
  const std::int64_t count = layout_.at(flat_param).grads.count.count();
  const int first = round.micro * layout_.dp_size;
  const int last = std::min(first + layout_.dp_size, layout_.single_slots);
  for (int slot = first; slot < last; ++slot) {
    carry(work, flat_param, slot, round.arrived + (slot - first) * count);
  }
}

// Leaf k arrives when the bits of k say which levels are occupied: carry it up to the first
// free one, earlier sums on the left.
void GradStore::carry(const core::Work& work, int flat_param, int leaf, float* arrived) {
  const std::int64_t count = layout_.at(flat_param).grads.count.count();
  int free_level = 0;
  for (; ((leaf >> free_level) & 1) != 0; ++free_level) {
    kernels::add(work, count, level(flat_param, free_level), arrived);
  }
  if (arrived != level(flat_param, free_level)) {
    kernels::copy(work, count, arrived, level(flat_param, free_level));
  }
  if (leaf == layout_.leaves() - 1) fold(work, flat_param);
}

// The leftovers pass up unchanged until they meet the next larger sum: smallest first.
void GradStore::fold(const core::Work& work, int flat_param) {
  const std::int64_t count = layout_.at(flat_param).grads.count.count();
  const auto occupied = static_cast<unsigned>(layout_.leaves());
  float* const sum = level(flat_param, 0);
  const float* const smallest = level(flat_param, std::countr_zero(occupied));
  if (smallest != sum) kernels::copy(work, count, smallest, sum);
  for (unsigned left = occupied & (occupied - 1); left != 0; left &= left - 1) {
    kernels::add(work, count, level(flat_param, std::countr_zero(left)), sum);
  }
}

}  // namespace fm::zero
