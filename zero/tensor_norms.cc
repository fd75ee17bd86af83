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

}  // namespace

std::vector<double> tensor_norms(const core::Work& work, const core::ParamTable& table,
                                 Elements first, std::span<const float> values,
                                 BlockSquares& squares, const NormRanks& ranks) {
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
  const std::vector<core::FlatRange> repeats = table.repeats();
  std::vector<Blocks> mine;  // where sums of `all` come from here
  std::int64_t put = 0;
  std::int64_t before = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const core::ParamEntry& entry = table.at(static_cast<int>(i));
    const Elements begin = std::max(entry.offset, first);
    const Elements end = std::min(entry.offset + entry.numel, last);
    if (begin < end) {
      const auto part = values.subspan(static_cast<std::size_t>((begin - first).count()),
                                       static_cast<std::size_t>((end - begin).count()));
      const std::int64_t count = squares.put(work, begin, part, repeats, put);
      mine.push_back({before + begin.count() / kBlock - blocks[i].first, count});
      put += count;
    }
    before += blocks[i].count;
  }
  std::vector<double> sums(all, 0.0);
  std::span<const double> taken = squares.read(work, put);
  for (const Blocks& part : mine) {
    std::ranges::copy(taken.first(static_cast<std::size_t>(part.count)), sums.begin() + part.first);
    taken = taken.subspan(static_cast<std::size_t>(part.count));
  }
  // A block belongs to one rank; the others add zeros.
  const auto add_up = [](comm::Words* others, std::vector<double>& numbers) {
    if (others == nullptr) return;
    others->all_reduce(std::span(numbers)).finish();
  };
  add_up(ranks.data, sums);
  std::vector<double> norms;
  std::span<double> left(sums);
  for (const Blocks& of_entry : blocks) {
    const auto count = static_cast<std::size_t>(of_entry.count);
    norms.push_back(core::tree_sum(left.first(count)));
    left = left.subspan(count);
  }
  add_up(ranks.tensor, norms);
  for (double& norm : norms) norm = std::sqrt(norm);
  return norms;
}

std::int64_t blocks_of_tensors(const core::ParamTable& table, std::int64_t values) {
  return kernels::norm_blocks(values) + 2 * std::ssize(table.entries());
}

}  // namespace fm::zero
