#include "optim/newton_schulz.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "kernels/gemm/gemm.h"
#include "kernels/pointwise/moves.h"
#include "kernels/pointwise/muon.h"
#include "kernels/pointwise/sums.h"

namespace fm::optim {
namespace {

using kernels::Form;

constexpr int kIterations = 5;
constexpr kernels::Quintic kQuintic = {.a = 3.4445F, .b = -4.7750F, .c = 2.0315F};

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
  // The room is free before the first product; it holds more numbers than the norm has blocks.
  const auto blocks = static_cast<std::size_t>(kernels::norm_blocks(rows * cols));
  kernels::divide_by_norm(work, matrix, {reinterpret_cast<double*>(room.data()), blocks});
  for (int i = 0; i < kIterations; ++i) {
    const kernels::Operand<float> as_is{x, cols}, transposed{x, cols, Form::kTransposed};
    kernels::gemm(work, {side, side, std::max(rows, cols)}, wide ? as_is : transposed,
                  wide ? transposed : as_is, {squared, side});
    kernels::gemm(work, {side, side, side}, {squared, side}, {squared, side}, {factor, side});
    kernels::quintic_factor(work, kQuintic, side, squared, factor);
    const kernels::Operand<float> of_side{factor, side};
    kernels::gemm(work, {rows, cols, side}, wide ? of_side : as_is, wide ? as_is : of_side,
                  {next, cols});
    std::swap(x, next);
  }
  if (x != matrix.data()) kernels::copy(work, rows * cols, x, matrix.data());
}

}  // namespace fm::optim
