#include "zero/tensor_norms.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "core/tree.h"
#include "kernels/pointwise/sums.h"

namespace fm::zero {

using core::Elements;

namespace {

constexpr std::int64_t kBlock = kernels::kNormBlock;

// Blocks of the flat parameter that hold numbers [begin, end).
struct Blocks {
  std::int64_t first = 0;
  std::int64_t count = 0;
};
Blocks blocks_of(std::int64_t begin, std::int64_t end) {
  const std::int64_t first = begin / kBlock;
  return {first, (end - 1) / kBlock - first + 1};
}

// Numbers [begin, end) of the flat parameter, which are at `values`, into the sums of their blocks.
void add_squares(const core::Work& work, std::int64_t begin, std::int64_t end, const float* values,
                 double* sums) {
  const std::int64_t head = std::min(end, (begin / kBlock + 1) * kBlock) - begin;
  kernels::squared_norm(work, {values, static_cast<std::size_t>(head)}, {sums, 1});
  if (begin + head == end) return;
  const std::span rest(values + head, static_cast<std::size_t>(end - begin - head));
  kernels::squared_norm(
      work, rest, {sums + 1, static_cast<std::size_t>(kernels::norm_blocks(std::ssize(rest)))});
}

// The same without `repeats`, in ascending order.
void add_squares(const core::Work& work, std::int64_t begin, std::int64_t end, const float* values,
                 std::span<const core::FlatRange> repeats, double* sums) {
  const auto lies_outside = [&](const core::FlatRange& repeat) {
    return end <= repeat.first.count() || (repeat.first + repeat.count).count() <= begin;
  };
  if (std::ranges::all_of(repeats, lies_outside))
    return add_squares(work, begin, end, values, sums);
  std::vector<float> counted(values, values + (end - begin));
  for (const core::FlatRange& repeat : repeats) {
    const std::int64_t from = std::max(begin, repeat.first.count());
    const std::int64_t to = std::min(end, (repeat.first + repeat.count).count());
    if (from < to) std::fill_n(counted.begin() + (from - begin), to - from, 0.0F);
  }
  add_squares(work, begin, end, counted.data(), sums);
}

}  // namespace

std::vector<double> tensor_norms(const core::Work& work, const core::ParamTable& table,
                                 Elements first, std::span<const float> values,
                                 const NormRanks& ranks) {
  const Elements last = first + Elements(std::ssize(values));
  const auto cuts_a_block = [](Elements at) { return at.count() % kBlock != 0; };
  FM_CHECK(!cuts_a_block(first) && (!cuts_a_block(last) || last >= table.elements()),
           "slices are whole blocks of ", kBlock, ", not elements ", first.count(), " to ",
           last.count());
  FM_CHECK(ranks.data != nullptr || (first.count() == 0 && last >= table.elements()),
           "a rank alone has all of ", table.elements().count(), " elements, not ", first.count(),
           " to ", last.count());
  std::vector<Blocks> blocks;
  std::size_t all = 0;
  for (const core::ParamEntry& entry : table.entries()) {
    blocks.push_back(blocks_of(entry.offset.count(), (entry.offset + entry.numel).count()));
    all += static_cast<std::size_t>(blocks.back().count);
  }
  std::vector<double> sums(all, 0.0);
  const std::vector<core::FlatRange> repeats = table.repeats();
  double* at = sums.data();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const core::ParamEntry& entry = table.at(static_cast<int>(i));
    const std::int64_t begin = std::max(entry.offset, first).count();
    const std::int64_t end = std::min(entry.offset + entry.numel, last).count();
    if (begin < end) {
      add_squares(work, begin, end, values.data() + (begin - first.count()), repeats,
                  at + (begin / kBlock - blocks[i].first));
    }
    at += blocks[i].count;
  }
  // A block belongs to one rank; the others add zeros.
  const auto add_up = [](comm::Words* others, std::vector<double>& numbers) {
    if (others == nullptr) return;
    others->all_reduce(std::span(numbers)).wait();
  };
  add_up(ranks.data, sums);
  std::vector<double> norms;
  std::span<double> left(sums);
  for (const Blocks& of_entry : blocks) {
    const auto mine = static_cast<std::size_t>(of_entry.count);
    norms.push_back(core::tree_sum(left.first(mine)));
    left = left.subspan(mine);
  }
  add_up(ranks.tensor, norms);
  for (double& norm : norms) norm = std::sqrt(norm);
  return norms;
}

}  // namespace fm::zero
