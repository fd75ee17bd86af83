#include "zero/tensor_norms.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "core/tree.h"
#include "kernels/pointwise/sums.h"

namespace fm::zero {

using core::Elements;

namespace {

constexpr std::int64_t kBlock = kernels::kNormBlock;

// Blocks of the group that hold numbers [begin, end).
struct Blocks {
  std::int64_t first = 0;
  std::int64_t count = 0;
};
Blocks blocks_of(std::int64_t begin, std::int64_t end) {
  const std::int64_t first = begin / kBlock;
  return {first, (end - 1) / kBlock - first + 1};
}

// Numbers [begin, end) of the group, which are at `values`, into the sums of their blocks.
void add_squares(std::int64_t begin, std::int64_t end, const float* values, double* sums) {
  const std::int64_t head = std::min(end, (begin / kBlock + 1) * kBlock) - begin;
  kernels::squared_norm({values, static_cast<std::size_t>(head)}, {sums, 1});
  if (begin + head == end) return;
  const std::span rest(values + head, static_cast<std::size_t>(end - begin - head));
  kernels::squared_norm(
      rest, {sums + 1, static_cast<std::size_t>(kernels::norm_blocks(std::ssize(rest)))});
}

}  // namespace

std::vector<double> tensor_norms(const core::ParamTable& table, Elements first, Elements count,
                                 const float* values, comm::Communicator* dp) {
  std::vector<Blocks> blocks;
  std::size_t all = 0;
  for (const core::ParamEntry& entry : table.entries()) {
    blocks.push_back(blocks_of(entry.offset.count(), (entry.offset + entry.numel).count()));
    all += static_cast<std::size_t>(blocks.back().count);
  }
  std::vector<double> sums(all, 0.0);
  double* at = sums.data();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const core::ParamEntry& entry = table.at(static_cast<int>(i));
    const std::int64_t begin = std::max(entry.offset, first).count();
    const std::int64_t end = std::min(entry.offset + entry.numel, first + count).count();
    if (begin < end) {
      add_squares(begin, end, values + (begin - first.count()),
                  at + (begin / kBlock - blocks[i].first));
    }
    at += blocks[i].count;
  }
  // A block belongs to one rank; the others add zeros.
  if (dp != nullptr) {
    dp->all_reduce({sums.data(), Elements(std::ssize(sums)), core::DType::kF64}).wait();
  }
  std::vector<double> norms;
  std::span<double> left(sums);
  for (const Blocks& of_entry : blocks) {
    const auto mine = static_cast<std::size_t>(of_entry.count);
    norms.push_back(std::sqrt(core::tree_sum(left.first(mine))));
    left = left.subspan(mine);
  }
  return norms;
}

}  // namespace fm::zero
