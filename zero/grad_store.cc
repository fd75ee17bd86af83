#include "zero/grad_store.h"

#include <algorithm>
#include <bit>

#include "core/check.h"
#include "core/finite.h"
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
  explicit SquareSum(const float* sum) : sum_(sum) {}

  void visit(Elements first, Elements count) override {
    const core::TraceScope scope(kSquares, {count.count(), 4 * count.count()});
    for (std::int64_t at = 0; at < count.count(); at += kPart) {
      const std::int64_t here = std::min(kPart, count.count() - at);
      double blocks[kPart / kernels::kNormBlock];
      const auto used = static_cast<std::size_t>(kernels::norm_blocks(here));
      kernels::squared_norm({sum_ + (first.count() + at), static_cast<std::size_t>(here)},
                            std::span(blocks).first(used));
      for (std::size_t block = 0; block < used; ++block) total_ += blocks[block];
    }
  }
  void visit(Elements /*first*/, Elements /*count*/, std::span<const double> squares) override {
    for (const double block : squares) total_ += block;
  }

 private:
  const float* sum_;
};

// Adds what arrived from a micro-batch to the sum of those before, part by part as it becomes
// final, with the squares of the result.
class Addition : public SumOfSquares {
 public:
  Addition(const float* arrived, float* sum) : arrived_(arrived), sum_(sum) {}

  void visit(Elements first, Elements count) override {
    const core::TraceScope scope(kAddAndSquares, {count.count(), 12 * count.count()});
    const std::int64_t last = (first + count).count();
    for (std::int64_t at = first.count(); at < last; at += kPart) {
      const std::int64_t here = std::min(kPart, last - at);
      double blocks[kPart / kernels::kNormBlock];
      const auto squares =
          std::span(blocks).first(static_cast<std::size_t>(kernels::norm_blocks(here)));
      kernels::add_squares(here, arrived_ + at, sum_ + at, squares);
      for (const double block : squares) total_ += block;
    }
  }

 private:
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

}  // namespace

void clear_gaps(const core::Work& work, const Group& group, float* whole) {
  FM_CHECK(group.table->elements() == group.map.elements, "a map of ", group.map.elements.count(),
           " elements does not cut a table of ", group.table->elements().count());
  Elements written;
  for (const core::ParamEntry& entry : group.table->entries()) {
    kernels::clear(work, (entry.offset - written).count(), whole + written.count());
    written = entry.offset + entry.numel;
  }
  kernels::clear(work, (group.map.padded() - written).count(), whole + written.count());
}

GradStore::GradStore(const Layout& layout, core::Ledger& ledger, comm::Communicator& dp,
                     bool waits_later)
    : layout_(layout),
      dp_(dp),
      buffers_(reserve(layout, Role::kGrads, ledger, &dp)),
      counters_(reserve(layout, Role::kCounter, ledger, nullptr)),
      incoming_(reserve(layout, Role::kIncoming, ledger, &dp)),
      tied_incoming_(reserve(layout, Role::kTiedIncoming, ledger, &dp)),
      slot_(reserve(layout, Role::kGradientSlots, ledger, &dp)),
      tied_slot_(reserve(layout, Role::kTiedSlot, ledger, &dp)),
      slot_of_group_(layout.groups.size(), 0),
      waits_later_(waits_later),
      written_(layout.groups.size(), false),
      squares_(layout.groups.size()) {
  check_ranks(layout, dp);
  if (layout.plan.reduce_every_micro) make_slots();
}

void GradStore::make_slots() {
  for (int group = 0; group < layout_.trained; ++group) {
    const SlotPlace& at = layout_.at(group).slot;
    for (int slot = 0; slot < layout_.gradient_slots; ++slot) {
      const std::span<float> buffer = (at.alone ? tied_slot_ : slot_).front().floats();
      const Elements first = at.alone ? Elements(0) : layout_.gradient_slot * slot + at.first;
      float* const others = part_of(buffer, first, at.count).data();
      Slots slots;
      slots.first = slot_at(group, others, arrival(group, slot, 0));
      if (layout_.micros > 1) slots.later = slot_at(group, others, arrival(group, slot, 1));
      slots_.push_back(std::move(slots));
    }
  }
}

GradStore::Slot GradStore::slot_at(int group, float* others, float* own) {
  if (!layout_.at(group).slot.own_part_in_place) return {others, nullptr};
  const core::Bytes part = core::bytes_of(layout_.at(group).map.slice(), DType::kF32);
  Slot slot;
  slot.joined = dp_.memory()->join({others, own, part, layout_.dp_size, layout_.dp_rank});
  slot.whole = static_cast<float*>(slot.joined->data());
  return slot;
}

const GradStore::Slot& GradStore::slot(int group, int micro) const {
  const int index = group * layout_.gradient_slots + slot_of(group);
  const Slots& slots = slots_[static_cast<std::size_t>(index)];
  return micro == 0 ? slots.first : slots.later;
}

int GradStore::slot_of(int group) const {
  const bool behind = layout_.at(group).tied_end;  // beside the head's own group
  return slot_of_group_[static_cast<std::size_t>(behind ? group - 1 : group)];
}

void GradStore::take_slot(const core::Work& work, int group) {
  if (layout_.at(group).tied_end) return;
  if (layout_.at(group).slot.alone) return finish_up_to(work, &Reduction::group, group);
  last_slot_ = (last_slot_ + 1) % layout_.gradient_slots;
  finish_up_to(work, &Reduction::slot, last_slot_);
  slot_of_group_[static_cast<std::size_t>(group)] = last_slot_;
}

float* GradStore::arrival(int group, int slot, int micro) {
  const bool canonical = layout_.order == core::SumOrder::kCanonical;
  const bool first = layout_.micros == 1 || (!canonical && micro == 0);
  if (first) return kept(group).data();
  if (layout_.plan.grads == Home::kEveryRank) return nullptr;  // it is summed in its slot
  const SlotPlace& at = layout_.at(group).incoming;
  const Elements place = at.alone ? Elements(0) : layout_.incoming * slot + at.first;
  return part_of((at.alone ? tied_incoming_ : incoming_).front().floats(), place, at.count).data();
}

void GradStore::begin_step() {
  FM_CHECK(under_way_.empty(), "reductions of the last step are under way");
  std::fill(written_.begin(), written_.end(), false);
  for (std::optional<double>& square : squares_) square.reset();
}

GradStore::Destination GradStore::destination(const core::Work& work, int group, int micro) {
  layout_.check_trained(group);
  FM_CHECK(micro >= 0 && micro < layout_.micros, "a step has ", layout_.micros,
           " micro-batches, and none is ", micro);
  const auto index = static_cast<std::size_t>(group);
  const bool assign = !written_[index];
  written_[index] = true;
  if (!layout_.plan.reduce_every_micro) return {kept(group).data(), assign};
  if (assign) take_slot(work, group);
  float* const whole = slot(group, micro).whole;
  if (assign) clear_gaps(work, layout_.at(group), whole);
  return {whole, assign};
}

void GradStore::changed(int group) {
  layout_.check_trained(group);
  squares_[static_cast<std::size_t>(group)].reset();
}

double GradStore::squared(int group) {
  FM_CHECK(under_way_.empty(), "sums are read while ", under_way_.size(), " are under way");
  std::optional<double>& square = squares_[static_cast<std::size_t>(group)];
  if (!square) {
    SquareSum sum(slice(group).data());
    sum.visit(Elements(0), layout_.at(group).map.slice());
    square = sum.total();
  }
  return *square;
}

bool GradStore::any_reaches(float limit) {
  for (int group = 0; group < layout_.trained; ++group) {
    if (squared(group) < double{limit} * limit) continue;
    if (core::any_reaches(slice(group), limit)) return true;
  }
  return false;
}

std::span<float> GradStore::kept(int group) {
  layout_.check_trained(group);
  return buffers_[static_cast<std::size_t>(group)].floats();
}

std::span<float> GradStore::slice(int group) {
  const bool whole_here = layout_.plan.grads == Home::kEveryRank;
  const Range& owned = layout_.at(group).owned;
  return part_of(kept(group), whole_here ? owned.first : Elements(0), owned.count);
}

void GradStore::reduce(const core::Work& work, int group, int micro) {
  const bool each = layout_.plan.reduce_every_micro;
  FM_CHECK(each ? micro >= 0 && micro < layout_.micros : micro < 0, "the plan reduces ",
           each ? "each micro-batch" : "once per step", ", not micro-batch ", micro);
  layout_.check_trained(group);
  FM_CHECK(written_[static_cast<std::size_t>(group)], "group ", group,
           " is reduced before its gradient is written");
  // Its earlier micro-batches are added first.
  finish_up_to(work, &Reduction::group, group);
  under_way_.push_back(each ? reduce_micro(group, micro) : reduce_once(group));
  if (!waits_later_) settle(work);
}

void GradStore::settle(const core::Work& work) { finish_first(work, std::ssize(under_way_)); }

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
  reduction.pending.wait();
  const bool canonical = layout_.order == core::SumOrder::kCanonical;
  if (canonical && reduction.micro >= 0)
    carry(work, reduction.group, reduction.micro, reduction.arrived);
  if (reduction.sum == nullptr) return;
  squares_[static_cast<std::size_t>(reduction.group)] = reduction.sum->total();
}

GradStore::Reduction GradStore::reduce_micro(int group, int micro) {
  written_[static_cast<std::size_t>(group)] = false;
  const bool canonical = layout_.order == core::SumOrder::kCanonical;
  float* const whole = slot(group, micro).whole;
  Reduction out{.group = group, .micro = micro};
  if (!layout_.at(group).slot.alone) out.slot = slot_of(group);
  if (layout_.plan.grads == Home::kEveryRank) {
    FM_CHECK(canonical,
             "only the canonical order reduces a gradient that every rank keeps so often");
    out.arrived = whole;
    out.pending = dp_.all_reduce({whole, layout_.at(group).map.padded(), DType::kF32});
    return out;
  }
  out.arrived = arrival(group, slot_of(group), micro);
  const bool in_place = layout_.at(group).slot.own_part_in_place;
  float* const into = in_place ? whole + layout_.at(group).owned.first.count() : out.arrived;
  if (!canonical && micro == 0) {  // it arrives where it is kept
    out.sum = std::make_unique<SquareSum>(into);
  } else if (!canonical) {
    out.sum = std::make_unique<Addition>(into, kept(group).data());
  }
  out.pending = reduce_scatter(group, whole, into, out.sum.get());
  return out;
}

GradStore::Reduction GradStore::reduce_once(int group) {
  const core::ShardMap& map = layout_.at(group).map;
  const comm::Span all = {kept(group).data(), map.padded(), DType::kF32};
  Reduction out{.group = group};
  if (layout_.plan.optimizer == Home::kEveryRank) {
    out.pending = dp_.all_reduce(all);
  } else {
    float* const own = slice(group).data();
    out.sum = std::make_unique<SquareSum>(own);
    out.pending = reduce_scatter(group, kept(group).data(), own, out.sum.get());
  }
  return out;
}

comm::Pending GradStore::reduce_scatter(int group, const float* whole, float* into,
                                        comm::SumVisitor* visitor) {
  const core::ShardMap& map = layout_.at(group).map;
  return dp_.reduce_scatter_to({whole, map.padded(), DType::kF32}, {into, map.slice(), DType::kF32},
                               visitor);
}

float* GradStore::level(int group, int index) {
  if (index == 0) return kept(group).data();
  FM_CHECK(index <= layout_.counter_levels, "a counter of ", layout_.counter_levels,
           " levels beside the gradient has no level ", index);
  return counters_[static_cast<std::size_t>(group * layout_.counter_levels + index - 1)].f32();
}

// Micro-batch k arrives when the bits of k say which levels are occupied: carry it up to the first
// free one, earlier sums on the left.
void GradStore::carry(const core::Work& work, int group, int micro, float* arrived) {
  const std::int64_t count = layout_.at(group).grads.count.count();
  int free_level = 0;
  for (; ((micro >> free_level) & 1) != 0; ++free_level) {
    kernels::add(count, level(group, free_level), arrived);
  }
  if (arrived != level(group, free_level)) {
    kernels::copy(work, count, arrived, level(group, free_level));
  }
  if (micro == layout_.micros - 1) fold(work, group);
}

// The leftovers pass up unchanged until they meet the next larger sum: smallest first.
void GradStore::fold(const core::Work& work, int group) {
  const std::int64_t count = layout_.at(group).grads.count.count();
  const auto occupied = static_cast<unsigned>(layout_.micros);
  float* const sum = level(group, 0);
  const float* const smallest = level(group, std::countr_zero(occupied));
  if (smallest != sum) kernels::copy(work, count, smallest, sum);
  for (unsigned left = occupied & (occupied - 1); left != 0; left &= left - 1) {
    kernels::add(count, level(group, std::countr_zero(left)), sum);
  }
}

}  // namespace fm::zero
