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
  blocks_.resize(blocks);
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
    pipe_.broadcast({at, static_cast<std::size_t>(part.count)}, part.pipe_rank).wait();
    at += part.count;
  }
  return sum();
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
  if (tensor_ != nullptr) tensor_->all_reduce(std::span(&own, 1)).wait();
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
  if (tensor_ != nullptr) tensor_->all_reduce(std::span(&sum, 1)).wait();
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
  dp_.all_gather({&sum, 1}, {out, static_cast<std::size_t>(layout_.dp_size)}).wait();
}

std::span<double> GlobalNorm::blocks_of(const core::Work& work, GradStore& grads, int flat_param) {
  const core::ShardMap& map = layout_.at(flat_param).map;
  const Elements first = layout_.at(flat_param).owned.first;
  const std::span<const float> values = grads.slice(flat_param);
  const std::span blocks =
      std::span(blocks_).first(static_cast<std::size_t>(map.slice() / core::kBlock));
  kernels::squared_norm(work, values, blocks);
  const std::int64_t size = core::kBlock.count();
  for (std::size_t block = 0; block < blocks.size(); ++block) {
    const Elements begin = first + core::kBlock * static_cast<std::int64_t>(block);
    std::vector<float> counted;  // a copy, where some of the block do not count
    for (const core::FlatRange& repeat : repeats_[static_cast<std::size_t>(flat_param)]) {
      const Elements from = std::max(begin, repeat.first);
      const Elements to = std::min(begin + core::kBlock, repeat.first + repeat.count);
      if (from >= to) continue;
      if (counted.empty()) {
        const float* const at = values.data() + static_cast<std::int64_t>(block) * size;
        counted.assign(at, at + size);
      }
      std::fill_n(counted.begin() + (from - begin).count(), (to - from).count(), 0.0F);
    }
    if (!counted.empty()) kernels::squared_norm(work, counted, blocks.subspan(block, 1));
  }
  return blocks;
}

void GlobalNorm::gather_canonical(const core::Work& work, GradStore& grads, int flat_param,
                                  double* out) {
  const core::ShardMap& map = layout_.at(flat_param).map;
  const std::span<const double> blocks = blocks_of(work, grads, flat_param);
  const std::size_t all = blocks.size() * static_cast<std::size_t>(layout_.dp_size);
  dp_.all_gather(blocks, std::span(gathered_).first(all)).wait();
  std::copy_n(gathered_.begin(), map.blocks(), out);  // padding blocks are left out
}

}  // namespace fm::zero
