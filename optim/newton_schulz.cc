#include "optim/newton_schulz.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "core/tree.h"
#include "kernels/gemm/gemm.h"
#include "kernels/pointwise/moves.h"
#include "kernels/pointwise/sums.h"

namespace fm::optim {
namespace {

using kernels::Form;

constexpr int kIterations = 5;
constexpr float kA = 3.4445F, kB = -4.7750F, kC = 2.0315F;

void divide_by_norm(std::int64_t count, float* values) {
  const std::span<float> all(values, static_cast<std::size_t>(count));
  std::vector<double> blocks(static_cast<std::size_t>(kernels::norm_blocks(count)));
  kernels::squared_norm(all, blocks);
  const auto factor =
      static_cast<float>(1.0 / (std::sqrt(core::tree_sum(std::span(blocks))) + 1e-7));
  for (float& value : all) value *= factor;
}

}  // namespace

core::Elements newton_schulz_room(std::int64_t rows, std::int64_t cols) {
  const std::int64_t side = std::min(rows, cols);
  return core::Elements(rows * cols + 2 * side * side);
}

void newton_schulz(core::Work& work, std::int64_t rows, std::int64_t cols, float* matrix,
                   float* room) {
  const std::int64_t side = std::min(rows, cols);
  const bool wide = rows <= cols;
  float* const squared = room + rows * cols;
  float* const factor = squared + side * side;
  float* x = matrix;
  float* next = room;
  divide_by_norm(rows * cols, matrix);
  for (int i = 0; i < kIterations; ++i) {
    const kernels::Operand<float> as_is{x, cols}, transposed{x, cols, Form::kTransposed};
    kernels::gemm(work, {side, side, std::max(rows, cols)}, wide ? as_is : transposed,
                  wide ? transposed : as_is, {squared, side});
    kernels::gemm(work, {side, side, side}, {squared, side}, {squared, side}, {factor, side});
    for (std::int64_t at = 0; at < side * side; ++at) {
      factor[at] = kB * squared[at] + kC * factor[at];
    }
    for (std::int64_t at = 0; at < side; ++at) factor[at * (side + 1)] += kA;
    const kernels::Operand<float> of_side{factor, side};
    kernels::gemm(work, {rows, cols, side}, wide ? of_side : as_is, wide ? as_is : of_side,
                  {next, cols});
    std::swap(x, next);
  }
  if (x != matrix) kernels::copy(work, rows * cols, x, matrix);
}

}  // namespace fm::optim
