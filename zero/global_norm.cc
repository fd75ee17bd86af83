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

std::int64_t GlobalNorm::numbers_of(std::span<const core::ShardMap> maps, core::SumOrder order) {
  std::int64_t count = 0;
  for (const core::ShardMap& map : maps) {
    count += order == core::SumOrder::kCanonical || count == 0 ? numbers_of(map, order) : 0;
  }
  return count;
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
    const bool counts = layout.order == core::SumOrder::kCanonical || at.end < 0;
    if (!at.tied_end && counts) own += numbers_of(at.map, layout.order);
  }
  const auto most = std::max<std::int64_t>(largest / core::kBlock, layout.trained);
  gathered_.resize(static_cast<std::size_t>(most * layout.dp_size));
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
  grads.take_squares(work);
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
  const bool in_order = layout_.order == core::SumOrder::kCanonical || is_in_tiles(flat_param);
  const bool blocks = in_order || !repeats.empty();
  grads.keep_squares(work, flat_param,
                     blocks ? GradStore::Squares::kBlocks : GradStore::Squares::kSum, repeats);
}

double GlobalNorm::take_own(const core::Work& work, GradStore& grads) {
  grads.take_squares(work);
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
  std::vector<double> sums;
  std::vector<double*> places;
  for (int unit = part.first; unit < part.last; ++unit) {
    const std::vector<int> flat_params = layout_.normed_at(unit);
    if (layout_.order == core::SumOrder::kCanonical) {
      for (const int flat_param : flat_params) {
        gather_canonical(work, grads, flat_param, out);
        out += layout_.at(flat_param).map.blocks();
      }
    } else if (flat_params.size() > 1) {
      out += gather_in_tiles(work, grads, flat_params, out);
    } else {
      for (const int flat_param : flat_params) {
        sums.push_back(sum_of(work, grads, flat_param));
        places.push_back(out);
        out += layout_.dp_size;
      }
    }
  }
  gather_sums(sums, places);
}

// The sums that owners of the whole table would have.
std::int64_t GlobalNorm::gather_in_tiles(const core::Work& work, GradStore& grads,
                                         const std::vector<int>& flat_params, double* out) {
  std::vector<double> blocks;
  Elements elements;
  for (const int flat_param : flat_params) {
    const core::ShardMap& map = layout_.at(flat_param).map;
    const auto before = static_cast<std::ptrdiff_t>(blocks.size());
    blocks.resize(blocks.size() + static_cast<std::size_t>(map.blocks()));
    gather_canonical(work, grads, flat_param, blocks.data() + before);
    elements += map.elements;
  }
  const core::ShardMap whole{elements, layout_.dp_size};
  const std::int64_t each = whole.slice() / core::kBlock;
  for (int owner = 0; owner < layout_.dp_size; ++owner) {
    const auto from = std::min(each * owner, std::ssize(blocks));
    const auto to = owner + 1 == layout_.dp_size ? std::ssize(blocks)
                                                 : std::min(from + each, std::ssize(blocks));
    out[owner] = std::accumulate(blocks.begin() + from, blocks.begin() + to, 0.0);
  }
  return layout_.dp_size;
}

bool GlobalNorm::is_in_tiles(int flat_param) const {
  const FlatParam& at = layout_.at(flat_param);
  return at.end >= 0 || (!at.tied_end && layout_.normed_at(at.unit).size() > 1);
}

double GlobalNorm::sum_of(const core::Work& work, GradStore& grads, int flat_param) {
  if (repeats_[static_cast<std::size_t>(flat_param)].empty()) {
    return grads.squared(work, flat_param);
  }
  const std::span<const double> blocks = blocks_of(work, grads, flat_param);
  return std::accumulate(blocks.begin(), blocks.end(), 0.0);
}

void GlobalNorm::gather_sums(std::span<const double> sums, std::span<double* const> out) {
  if (sums.empty()) return;
  const auto owners = static_cast<std::size_t>(layout_.dp_size);
  const auto all = std::span(gathered_).first(sums.size() * owners);
  dp_.all_gather(sums, all).finish();
  for (std::size_t i = 0; i < sums.size(); ++i) {
    for (std::size_t owner = 0; owner < owners; ++owner) {
      out[i][owner] = all[owner * sums.size() + i];
    }
  }
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
