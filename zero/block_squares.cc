#include "zero/block_squares.h"

#include <algorithm>

#include "core/check.h"
#include "kernels/pointwise/moves.h"
#include "kernels/pointwise/sums.h"

namespace fm::zero {

using core::Elements;

namespace {

constexpr std::int64_t kBlock = kernels::kNormBlock;

bool overlap(Elements begin, Elements end, const core::FlatRange& repeat) {
  return begin < repeat.first + repeat.count && repeat.first < end;
}

}  // namespace

BlockSquares::BlockSquares(const core::RankMemory& memory, std::int64_t blocks)
    : sums_(memory, static_cast<std::size_t>(blocks)),
      counted_(memory, static_cast<std::size_t>(kBlock)) {}

core::Bytes BlockSquares::on_device(std::int64_t blocks) {
  return core::Bytes(blocks * static_cast<std::int64_t>(sizeof(double))) +
         core::bytes_of(Elements(kBlock), core::DType::kF32);
}

std::int64_t BlockSquares::put(const core::Work& work, Elements first,
                               std::span<const float> values,
                               std::span<const core::FlatRange> repeats, std::int64_t at) {
  if (values.empty()) return 0;
  const Elements end = first + Elements(std::ssize(values));
  const std::int64_t first_block = first.count() / kBlock;
  const std::int64_t blocks = (end.count() - 1) / kBlock - first_block + 1;
  const std::span sums = sums_.place().subspan(static_cast<std::size_t>(at));
  FM_CHECK(blocks <= std::ssize(sums), "there is no room for sums of ", blocks, " blocks");
  const std::int64_t until_next = (first_block + 1) * kBlock - first.count();
  const auto head = static_cast<std::size_t>(std::min(until_next, std::ssize(values)));
  if (head % kBlock == 0) {
    kernels::squared_norm(work, values, sums.first(static_cast<std::size_t>(blocks)));
  } else {
    kernels::squared_norm(work, values.first(head), sums.first(1));
    if (blocks > 1) {
      kernels::squared_norm(work, values.subspan(head),
                            sums.subspan(1, static_cast<std::size_t>(blocks - 1)));
    }
  }
  if (repeats.empty()) return blocks;
  for (std::int64_t block = 0; block < blocks; ++block) {
    const Elements from = std::max(first, Elements((first_block + block) * kBlock));
    const Elements to = std::min(end, Elements((first_block + block + 1) * kBlock));
    const auto meets = [&](const core::FlatRange& repeat) { return overlap(from, to, repeat); };
    if (std::ranges::none_of(repeats, meets)) continue;
    put_counted(work, from,
                values.subspan(static_cast<std::size_t>((from - first).count()),
                               static_cast<std::size_t>((to - from).count())),
                repeats, sums.subspan(static_cast<std::size_t>(block), 1));
  }
  return blocks;
}

void BlockSquares::put_counted(const core::Work& work, Elements begin,
                               std::span<const float> values,
                               std::span<const core::FlatRange> repeats, std::span<double> sum) {
  const Elements end = begin + Elements(std::ssize(values));
  float* const counted = counted_.place().data();
  kernels::copy(work, std::ssize(values), values.data(), counted);
  for (const core::FlatRange& repeat : repeats) {
    if (!overlap(begin, end, repeat)) continue;
    const Elements from = std::max(begin, repeat.first);
    const Elements to = std::min(end, repeat.first + repeat.count);
    kernels::clear(work, (to - from).count(), counted + (from - begin).count());
  }
  kernels::squared_norm(work, {counted, values.size()}, sum);
}

std::span<const double> BlockSquares::read(const core::Work& work, std::int64_t count,
                                           std::int64_t at) {
  return sums_.read(work, static_cast<std::size_t>(count), static_cast<std::size_t>(at));
}

}  // namespace fm::zero
