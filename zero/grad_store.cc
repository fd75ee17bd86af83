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
  double total() const { return total_; }

 private:
  const float* sum_;
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
  Elements largest_slice;
  for (int group = 0; group < layout.count(); ++group) {
    const Elements kept = layout.kept(group, layout.plan.grads);
    buffers_.push_back(core::make_f32(ledger, Account::kGrads, kept, dp.memory()));
    Counter counter;
    for (int index = 0; index < upper_levels; ++index) {
      counter.upper.push_back(core::make_f32(ledger, Account::kScratch, kept));
    }
    counters_.push_back(std::move(counter));
    largest_slice = std::max(largest_slice, layout.at(group).map.slice());
  }
  const bool needs_incoming = layout.plan.reduce_every_micro && layout.micros > 1 &&
                              layout.plan.grads == Home::kOneSliceEach;
  if (needs_incoming) incoming_ = core::make_f32(ledger, Account::kScratch, largest_slice);
}

void GradStore::begin_step() {
  std::fill(written_.begin(), written_.end(), false);
  for (std::optional<double>& square : squares_) square.reset();
}

GradStore::Destination GradStore::destination(int group, float* slot) {
  const auto index = static_cast<std::size_t>(group);
  if (layout_.plan.reduce_every_micro) {
    clear_gaps(*layout_.at(group).table, layout_.at(group).map, slot);
    return {slot, true};
  }
  const bool assign = !written_[index];
  written_[index] = true;
  return {kept(group), assign};
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

void GradStore::reduce(int group, int micro, float* slot) {
  if (!layout_.plan.reduce_every_micro) return reduce_once(group);
  const core::ShardMap& map = layout_.at(group).map;
  const bool canonical = layout_.order == core::SumOrder::kCanonical;
  float* arrived = slot;
  if (layout_.plan.grads == Home::kEveryRank) {
    dp_.all_reduce({slot, map.padded(), DType::kF32}).wait();
  } else {
    arrived = layout_.micros == 1 || (!canonical && micro == 0) ? kept(group) : incoming_.f32();
    const bool last = !canonical && arrived == kept(group) && layout_.micros == 1;
    reduce_scatter(group, slot, arrived, last);
  }
  if (canonical) {
    carry(group, micro, arrived);
  } else {
    add_fast(group, micro, arrived);
  }
}

void GradStore::reduce_once(int group) {
  const core::ShardMap& map = layout_.at(group).map;
  const comm::Span all = {kept(group), map.padded(), DType::kF32};
  if (layout_.plan.optimizer == Home::kEveryRank) {
    dp_.all_reduce(all).wait();
  } else {
    reduce_scatter(group, kept(group), slice(group), true);
  }
}

void GradStore::reduce_scatter(int group, const float* whole, float* into, bool last) {
  const core::ShardMap& map = layout_.at(group).map;
  SquareSum sum(into);
  dp_.reduce_scatter_to({whole, map.padded(), DType::kF32}, {into, map.slice(), DType::kF32},
                        last ? &sum : nullptr)
      .wait();
  if (last) squares_[static_cast<std::size_t>(group)] = sum.total();
}

void GradStore::add_fast(int group, int micro, const float* arrived) {
  float* sum = kept(group);
  if (arrived == sum) return;  // the first micro-batch arrived in place
  const Elements count = layout_.kept(group, layout_.plan.grads);
  if (micro == 0) {
    std::memcpy(sum, arrived, static_cast<std::size_t>(count.count()) * sizeof(float));
  } else if (micro == layout_.micros - 1 && layout_.plan.grads == Home::kOneSliceEach) {
    add_last(group, arrived);
  } else {
    kernels::add(count.count(), arrived, sum);
  }
}

void GradStore::add_last(int group, const float* arrived) {
  float* const sum = kept(group);
  const std::int64_t count = layout_.at(group).map.slice().count();
  const core::TraceScope scope(kAddAndSquares, {count, 12 * count});
  SquareSum squares(sum);
  for (std::int64_t at = 0; at < count; at += kPart) {
    const std::int64_t here = std::min(kPart, count - at);
    kernels::add(here, arrived + at, sum + at);
    squares.visit(Elements(at), Elements(here));
  }
  squares_[static_cast<std::size_t>(group)] = squares.total();
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
