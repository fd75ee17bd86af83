#include "zero/grad_store.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/trace_recorder.h"
#include "kernels/add.h"
#include "kernels/squared_norm.h"

namespace fm::zero {

using core::Account;
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
class SquareSum : public comm::SumVisitor {
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
  double total() const { return total_; }

 private:
  const float* sum_;
  double total_ = 0.0;
};

// Adds what arrived from a micro-batch to the sum of those before, part by part as it becomes
// final, with the squares of the result.
class Addition : public comm::SumVisitor {
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
  double total() const { return total_; }

 private:
  const float* arrived_;
  float* sum_;
  double total_ = 0.0;
};

}  // namespace

GradStore::GradStore(const GroupLayout& layout, core::Ledger& ledger, comm::Communicator& dp)
    : layout_(layout),
      dp_(dp),
      written_(layout.groups.size(), false),
      squares_(layout.groups.size()) {
  const bool canonical = layout.order == core::SumOrder::kCanonical;
  const int upper_levels = canonical ? std::bit_width(static_cast<unsigned>(layout.micros)) - 1 : 0;
  for (int group = 0; group < layout.count(); ++group) {
    const Elements kept = layout.kept(group, layout.plan.grads);
    buffers_.push_back(core::make_f32(ledger, Account::kGrads, kept, dp.memory()));
    Counter counter;
    for (int index = 0; index < upper_levels; ++index) {
      counter.upper.push_back(core::make_f32(ledger, Account::kScratch, kept));
    }
    counters_.push_back(std::move(counter));
  }
  if (!layout.plan.reduce_every_micro) return;
  if (layout.micros > 1 && layout.plan.grads == Home::kOneSliceEach) make_incoming(ledger);
  make_slots(ledger);
}

// Where own parts are written in place, groups that wait at the same time need places of their own.
void GradStore::make_incoming(core::Ledger& ledger) {
  const bool in_place = layout_.plan.own_part_in_place();
  Elements largest;
  for (int group = 0; group < layout_.count(); ++group) {
    const Elements slice = layout_.at(group).map.slice();
    const bool behind = in_place && layout_.at(group).tied_end;
    incoming_at_.push_back(behind ? layout_.at(group - 1).map.slice() : Elements(0));
    if (in_place && has_own_slot(group)) {
      tied_incoming_ = core::make_f32(ledger, Account::kScratch, slice, dp_.memory());
    } else {
      largest = std::max(largest, incoming_at_.back() + slice);
    }
  }
  incoming_ = core::make_f32(ledger, Account::kScratch, largest, dp_.memory());
}

// Every unit uses the same memory, the head's end of a tied matrix behind the head's own group.
void GradStore::make_slots(core::Ledger& ledger) {
  const auto in_slot = [&](int group) {
    const core::ShardMap& map = layout_.at(group).map;
    return layout_.plan.own_part_in_place() ? map.padded() - map.slice() : map.padded();
  };
  std::vector<Elements> begins;
  Elements largest;
  for (int group = 0; group < layout_.count(); ++group) {
    begins.push_back(layout_.at(group).tied_end ? in_slot(group - 1) : Elements(0));
    if (has_own_slot(group)) continue;
    largest = std::max(largest, begins.back() + in_slot(group));
  }
  slot_ = core::make_f32(ledger, Account::kSlots, largest, dp_.memory());
  if (layout_.one_tied_gradient) {
    tied_slot_ = core::make_f32(ledger, Account::kSlots, in_slot(0), dp_.memory());
  }
  for (int group = 0; group < layout_.count(); ++group) {
    float* const others = (has_own_slot(group) ? tied_slot_ : slot_).f32() +
                          begins[static_cast<std::size_t>(group)].count();
    Slots slots;
    slots.first = slot_at(group, others, arrival(group, 0));
    if (layout_.micros > 1) slots.later = slot_at(group, others, arrival(group, 1));
    slots_.push_back(std::move(slots));
  }
}

GradStore::Slot GradStore::slot_at(int group, float* others, float* own) {
  if (!layout_.plan.own_part_in_place()) return {others, nullptr};
  const core::Bytes part = core::bytes_of(layout_.at(group).map.slice(), DType::kF32);
  Slot slot;
  slot.joined = dp_.memory()->join({others, own, part, layout_.dp_size, layout_.dp_rank});
  slot.whole = static_cast<float*>(slot.joined->data());
  return slot;
}

const GradStore::Slot& GradStore::slot(int group, int micro) const {
  const Slots& slots = slots_[static_cast<std::size_t>(group)];
  return micro == 0 ? slots.first : slots.later;
}

float* GradStore::arrival(int group, int micro) {
  const bool canonical = layout_.order == core::SumOrder::kCanonical;
  const bool first = layout_.micros == 1 || (!canonical && micro == 0);
  if (first) return kept(group);
  if (layout_.plan.grads == Home::kEveryRank) return nullptr;  // it is summed in its slot
  if (layout_.plan.own_part_in_place() && has_own_slot(group)) return tied_incoming_.f32();
  return incoming_.f32() + incoming_at_[static_cast<std::size_t>(group)].count();
}

void GradStore::begin_step() {
  std::fill(written_.begin(), written_.end(), false);
  for (std::optional<double>& square : squares_) square.reset();
}

GradStore::Destination GradStore::destination(int group, int micro) {
  const auto index = static_cast<std::size_t>(group);
  const bool assign = !written_[index];
  written_[index] = true;
  if (!layout_.plan.reduce_every_micro) return {kept(group), assign};
  float* const whole = slot(group, micro).whole;
  if (assign) clear_gaps(*layout_.at(group).table, layout_.at(group).map, whole);
  return {whole, assign};
}

double GradStore::squared(int group) {
  std::optional<double>& square = squares_[static_cast<std::size_t>(group)];
  if (!square) {
    SquareSum sum(slice(group));
    sum.visit(Elements(0), layout_.at(group).map.slice());
    square = sum.total();
  }
  return *square;
}

float* GradStore::kept(int group) { return buffers_[static_cast<std::size_t>(group)].f32(); }

float* GradStore::slice(int group) {
  const bool whole_here = layout_.plan.grads == Home::kEveryRank;
  return kept(group) + (whole_here ? layout_.slice_first(group).count() : 0);
}

void GradStore::reduce(int group, int micro) {
  if (!layout_.plan.reduce_every_micro) return reduce_once(group);
  written_[static_cast<std::size_t>(group)] = false;
  const bool canonical = layout_.order == core::SumOrder::kCanonical;
  float* const whole = slot(group, micro).whole;
  if (layout_.plan.grads == Home::kEveryRank) {
    FM_CHECK(canonical,
             "only the canonical order reduces a gradient that every rank keeps so often");
    dp_.all_reduce({whole, layout_.at(group).map.padded(), DType::kF32}).wait();
    return carry(group, micro, whole);
  }
  float* const arrived = arrival(group, micro);
  const bool in_place = layout_.plan.own_part_in_place();
  float* const into = in_place ? whole + layout_.slice_first(group).count() : arrived;
  if (canonical) {
    reduce_scatter(group, whole, into, nullptr);
    carry(group, micro, arrived);
  } else if (micro == 0) {  // it arrives where it is kept
    reduce_with_squares(group, whole, into);
  } else {
    Addition addition(into, kept(group));
    reduce_scatter(group, whole, into, &addition);
    squares_[static_cast<std::size_t>(group)] = addition.total();
  }
}

void GradStore::reduce_once(int group) {
  const core::ShardMap& map = layout_.at(group).map;
  const comm::Span all = {kept(group), map.padded(), DType::kF32};
  if (layout_.plan.optimizer == Home::kEveryRank) {
    dp_.all_reduce(all).wait();
  } else {
    reduce_with_squares(group, kept(group), slice(group));
  }
}

void GradStore::reduce_with_squares(int group, const float* whole, float* into) {
  SquareSum sum(into);
  reduce_scatter(group, whole, into, &sum);
  squares_[static_cast<std::size_t>(group)] = sum.total();
}

void GradStore::reduce_scatter(int group, const float* whole, float* into,
                               comm::SumVisitor* visitor) {
  const core::ShardMap& map = layout_.at(group).map;
  dp_.reduce_scatter_to({whole, map.padded(), DType::kF32}, {into, map.slice(), DType::kF32},
                        visitor)
      .wait();
}

float* GradStore::level(int group, int index) {
  if (index == 0) return kept(group);
  return counters_[static_cast<std::size_t>(group)]
      .upper[static_cast<std::size_t>(index - 1)]
      .f32();
}

// Micro-batch k arrives when the bits of k say which levels are occupied: carry it up to the first
// free one, earlier sums on the left.
void GradStore::carry(int group, int micro, float* arrived) {
  const std::int64_t count = layout_.kept(group, layout_.plan.grads).count();
  int free_level = 0;
  for (; ((micro >> free_level) & 1) != 0; ++free_level) {
    kernels::add(count, level(group, free_level), arrived);
  }
  if (arrived != level(group, free_level)) {
    std::memcpy(level(group, free_level), arrived, static_cast<std::size_t>(count) * sizeof(float));
  }
  if (micro == layout_.micros - 1) fold(group);
}

// The leftovers pass up unchanged until they meet the next larger sum: smallest first.
void GradStore::fold(int group) {
  const std::int64_t count = layout_.kept(group, layout_.plan.grads).count();
  const auto occupied = static_cast<unsigned>(layout_.micros);
  float* const sum = level(group, 0);
  const float* const smallest = level(group, std::countr_zero(occupied));
  if (smallest != sum) std::memcpy(sum, smallest, static_cast<std::size_t>(count) * sizeof(float));
  for (unsigned left = occupied & (occupied - 1); left != 0; left &= left - 1) {
    kernels::add(count, level(group, std::countr_zero(left)), sum);
  }
}

}  // namespace fm::zero
