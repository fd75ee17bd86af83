#include "zero/global_norm.h"

#include <algorithm>
#include <numeric>

#include "core/tree.h"
#include "kernels/squared_norm.h"

namespace fm::zero {

using core::DType;
using core::Elements;

std::int64_t GlobalNorm::partial_count(const GroupLayout& layout) {
  std::int64_t count = 0;
  for (const Group& group : layout.groups) {
    if (group.tied_end) continue;
    count += layout.order == core::SumOrder::kCanonical ? group.map.blocks() : layout.dp_size;
  }
  return count;
}

GlobalNorm::GlobalNorm(const GroupLayout& layout, comm::Communicator& dp, comm::Communicator& pipe,
                       std::vector<std::int64_t> partials_of_rank)
    : layout_(layout), dp_(dp), pipe_(pipe), partials_of_rank_(std::move(partials_of_rank)) {
  Elements largest;
  for (const Group& group : layout.groups) largest = std::max(largest, group.map.slice());
  const auto blocks = static_cast<std::size_t>(largest / core::kBlock);
  blocks_.resize(blocks);
  gathered_.resize(blocks * static_cast<std::size_t>(layout.dp_size));
  all_.resize(static_cast<std::size_t>(
      std::accumulate(partials_of_rank_.begin(), partials_of_rank_.end(), std::int64_t{0})));
}

double GlobalNorm::squared(GradStore& grads) {
  std::int64_t begin = 0;
  for (int rank = 0; rank < pipe_.size(); ++rank) {
    const std::int64_t count = partials_of_rank_[static_cast<std::size_t>(rank)];
    double* const mine = all_.data() + begin;
    if (rank == pipe_.rank()) {
      if (layout_.order == core::SumOrder::kCanonical) {
        gather_canonical(grads, mine);
      } else {
        gather_fast(grads, mine);
      }
    }
    pipe_.broadcast({mine, Elements(count), DType::kF64}, rank).wait();
    begin += count;
  }
  if (layout_.order == core::SumOrder::kCanonical) return core::tree_sum(std::span(all_));
  return std::accumulate(all_.begin(), all_.end(), 0.0);
}

void GlobalNorm::gather_fast(GradStore& grads, double* out) {
  for (int group = 0; group < layout_.count(); ++group) {
    if (layout_.at(group).tied_end) continue;
    const double sum = grads.squared(group);
    dp_.all_gather({&sum, Elements(1), DType::kF64}, {out, Elements(layout_.dp_size), DType::kF64})
        .wait();
    out += layout_.dp_size;
  }
}

void GlobalNorm::gather_canonical(GradStore& grads, double* out) {
  for (int group = 0; group < layout_.count(); ++group) {
    if (layout_.at(group).tied_end) continue;
    const core::ShardMap& map = layout_.at(group).map;
    const std::int64_t blocks = map.slice() / core::kBlock;
    kernels::squared_norm({grads.slice(group), static_cast<std::size_t>(map.slice().count())},
                          std::span(blocks_).first(static_cast<std::size_t>(blocks)));
    dp_.all_gather({blocks_.data(), Elements(blocks), DType::kF64},
                   {gathered_.data(), Elements(blocks * layout_.dp_size), DType::kF64})
        .wait();
    std::copy_n(gathered_.begin(), map.blocks(), out);  // padding blocks are left out
    out += map.blocks();
  }
}

}  // namespace fm::zero
