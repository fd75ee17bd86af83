#include "optim/newton_schulz.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/tree.h"
#include "kernels/gemm/gemm.h"
#include "kernels/pointwise/moves.h"
#include "kernels/pointwise/sums.h"

namespace fm::optim {
namespace {

using kernels::Form;

constexpr int kIterations = 5;
constexpr float kA = 3.4445F, kB = -4.7750F, kC = 2.0315F;

void divide_by_norm(std::span<float> all) {
  std::vector<double> blocks(static_cast<std::size_t>(kernels::norm_blocks(std::ssize(all))));
  kernels::squared_norm(all, blocks);
  const auto factor =
      static_cast<float>(1.0 / (std::sqrt(core::tree_sum(std::span(blocks))) + 1e-7));
  for (float& value : all) value *= factor;
}

}  // namespace

core::Elements newton_schulz_room(std::int64_t rows, std::int64_t cols) {
  FM_CHECK(rows > 0 && cols > 0, "no matrix is [", rows, ", ", cols, "]");
  const std::int64_t side = std::min(rows, cols);
  return core::Elements(rows * cols + 2 * side * side);
}

void newton_schulz(core::Work& work, std::int64_t rows, std::int64_t cols, std::span<float> matrix,
                   std::span<float> room) {
  FM_CHECK(std::ssize(matrix) == rows * cols, "a matrix [", rows, ", ", cols, "] has not ",
           matrix.size(), " elements");
  FM_CHECK(std::ssize(room) >= newton_schulz_room(rows, cols).count(), "a matrix [", rows, ", ",
           cols, "] needs more room than ", room.size(), " elements");
  const std::int64_t side = std::min(rows, cols);
  const bool wide = rows <= cols;
  float* const squared = room.data() + rows * cols;
  float* const factor = squared + side * side;
  float* x = matrix.data();
  float* next = room.data();
  divide_by_norm(matrix);
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
  if (x != matrix.data()) kernels::copy(work, rows * cols, x, matrix.data());
}

}  // namespace fm::optim
