#include "zero/global_norm.h"

#include <algorithm>
#include <numeric>

#include "core/check.h"
#include "core/tree.h"
#include "kernels/pointwise/sums.h"

namespace fm::zero {

using core::Elements;

std::int64_t GlobalNorm::numbers_of(const core::ShardMap& map, core::SumOrder order) {
  return order == core::SumOrder::kCanonical ? map.blocks() : map.owners;
}

GlobalNorm::GlobalNorm(const Layout& layout, comm::Words& dp, comm::Words& pipe,
                       std::vector<Part> parts, comm::Words* tensor)
    : layout_(layout), dp_(dp), pipe_(pipe), tensor_(tensor), parts_(std::move(parts)) {
  check_ranks(layout, dp);
  Elements largest;
  std::int64_t own = 0;
  for (int flat_param = 0; flat_param < layout.trained; ++flat_param) {
    const FlatParam& at = layout.at(flat_param);
    largest = std::max(largest, at.map.slice());
    repeats_.push_back(at.table->repeats());
    if (!at.tied_end) own += numbers_of(at.map, layout.order);
  }
  const auto blocks = static_cast<std::size_t>(largest / core::kBlock);
  gathered_.resize(blocks * static_cast<std::size_t>(layout.dp_size));
  std::int64_t count = 0;
  std::int64_t own_of_parts = 0;
  for (const Part& part : parts_) {
    count += part.count;
    if (part.pipe_rank == pipe.rank()) own_of_parts += part.count;
  }
  FM_CHECK(own == own_of_parts, "pipe rank ", pipe.rank(), " has ", own,
           " numbers of the norm, and its parts list ", own_of_parts);
  all_.resize(static_cast<std::size_t>(count));
}

double GlobalNorm::squared(const core::Work& work, GradStore& grads) {
  double* at = all_.data();
  for (const Part& part : parts_) {
    if (part.pipe_rank == pipe_.rank()) gather(work, grads, part, at);
    pipe_.broadcast({at, static_cast<std::size_t>(part.count)}, part.pipe_rank).finish();
    at += part.count;
  }
  return sum();
}

void GlobalNorm::keep(const core::Work& work, GradStore& grads, int flat_param) {
  const std::vector<core::FlatRange>& repeats = repeats_[static_cast<std::size_t>(flat_param)];
  const bool blocks = layout_.order == core::SumOrder::kCanonical || !repeats.empty();
  grads.keep_squares(work, flat_param,
                     blocks ? GradStore::Squares::kBlocks : GradStore::Squares::kSum, repeats);
}

double GlobalNorm::take_own(const core::Work& work, GradStore& grads) {
  double own = 0.0;
  double* at = all_.data();
  for (const Part& part : parts_) {
    if (part.pipe_rank == pipe_.rank()) {
      gather(work, grads, part, at);
      own = std::accumulate(at, at + part.count, own);
    }
    at += part.count;
  }
  if (tensor_ != nullptr) tensor_->all_reduce(std::span(&own, 1)).finish();
  return own;
}

void GlobalNorm::take_before(std::span<const double> numbers) {
  FM_CHECK(numbers.size() == all_.size(), "the norm has ", all_.size(), " numbers, not ",
           numbers.size());
  std::size_t at = 0;
  for (const Part& part : parts_) {
    const auto of_part = numbers.subspan(at, static_cast<std::size_t>(part.count));
    if (part.pipe_rank < pipe_.rank()) {
      std::ranges::copy(of_part, all_.begin() + static_cast<std::ptrdiff_t>(at));
    }
    at += of_part.size();
  }
}

double GlobalNorm::sum() {
  double sum = layout_.order == core::SumOrder::kCanonical
                   ? core::tree_sum(std::span(all_))
                   : std::accumulate(all_.begin(), all_.end(), 0.0);
  if (tensor_ != nullptr) tensor_->all_reduce(std::span(&sum, 1)).finish();
  return sum;
}

void GlobalNorm::gather(const core::Work& work, GradStore& grads, const Part& part, double* out) {
  for (int flat_param = 0; flat_param < layout_.trained; ++flat_param) {
    const FlatParam& at = layout_.at(flat_param);
    if (at.tied_end || at.unit < part.first || at.unit >= part.last) continue;
    if (layout_.order == core::SumOrder::kCanonical) {
      gather_canonical(work, grads, flat_param, out);
    } else {
      gather_fast(work, grads, flat_param, out);
    }
    out += numbers_of(at.map, layout_.order);
  }
}

void GlobalNorm::gather_fast(const core::Work& work, GradStore& grads, int flat_param,
                             double* out) {
  const auto add = [](std::span<const double> blocks) {
    return std::accumulate(blocks.begin(), blocks.end(), 0.0);
  };
  const bool repeats = !repeats_[static_cast<std::size_t>(flat_param)].empty();
  const double sum =
      repeats ? add(blocks_of(work, grads, flat_param)) : grads.squared(work, flat_param);
  dp_.all_gather({&sum, 1}, {out, static_cast<std::size_t>(layout_.dp_size)}).finish();
}

std::span<const double> GlobalNorm::blocks_of(const core::Work& work, GradStore& grads,
                                              int flat_param) {
  return grads.block_squares(work, flat_param, repeats_[static_cast<std::size_t>(flat_param)]);
}

void GlobalNorm::gather_canonical(const core::Work& work, GradStore& grads, int flat_param,
                                  double* out) {
  const core::ShardMap& map = layout_.at(flat_param).map;
  const std::span<const double> blocks = blocks_of(work, grads, flat_param);
  const std::size_t all = blocks.size() * static_cast<std::size_t>(layout_.dp_size);
  dp_.all_gather(blocks, std::span(gathered_).first(all)).finish();
  std::copy_n(gathered_.begin(), map.blocks(), out);  // padding blocks are left out
}

}  // namespace fm::zero
