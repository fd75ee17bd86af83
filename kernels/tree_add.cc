#include "kernels/tree_add.h"

#include <algorithm>

namespace fm::kernels::FM_SIMD {
namespace {

constexpr std::int64_t kBlock = 256;
constexpr int kLevels = 24;  // up to 2^24 rows

struct Partial {
  float values[kBlock];
  int level;  // tree height: holds the sum of 2^level rows
};

void add_into(Partial& left, const Partial& right, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) left.values[i] += right.values[i];
}

// A binary counter over the rows builds the same tree level by level; a leftover joins at the end.
void sum_block(std::span<const float* const> rows, std::int64_t from, std::int64_t count,
               float* out) {
  Partial stack[kLevels];
  int depth = 0;
  for (const float* row : rows) {
    std::copy_n(row + from, count, stack[depth].values);
    stack[depth].level = 0;
    ++depth;
    while (depth > 1 && stack[depth - 1].level == stack[depth - 2].level) {
      add_into(stack[depth - 2], stack[depth - 1], count);
      ++stack[depth - 2].level;
      --depth;
    }
  }
  for (; depth > 1; --depth) add_into(stack[depth - 2], stack[depth - 1], count);
  std::copy_n(stack[0].values, count, out + from);
}

}  // namespace

void tree_add(std::span<const float* const> rows, std::int64_t count, float* out) {
  for (std::int64_t from = 0; from < count; from += kBlock) {
    sum_block(rows, from, std::min(kBlock, count - from), out);
  }
}

}  // namespace fm::kernels::FM_SIMD
