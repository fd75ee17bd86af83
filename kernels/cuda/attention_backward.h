// What the kernels of attention's backward pass share: dout times out of every query and head,
// which it subtracts from the gradients of probabilities (FlashAttention-2, arXiv 2307.08691,
// section 3.1), and which queries see some keys.
#pragma once

#include "kernels/cuda/attention.h"

namespace fm::kernels::cuda {

// Queries from the first that are not before `key` on up to the one that is returned may see keys
// before `key_end`, later ones see none.
__device__ __forceinline__ int seeing_end(const Positions& at, int row, int key, int key_end) {
  int begin = at.earlier ? 0 : min(max(key, 0), at.queries);
  int end = at.queries;
  while (begin < end) {
    const int middle = begin + (end - begin) / 2;
    if (first_seen(at, row, middle) < key_end) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return end;
}

// Of `heads` heads of the rows of the batch, which are whole groups.
struct Dots {
  const float* values = nullptr;  // [heads, T], in the queue's work space
  std::int64_t first_head = 0;    // of all rows' heads
  std::int64_t heads = 0;
  std::int64_t first_row = 0;  // first_head T
};

// Eight threads per query and head.
template <class T>
__global__ void __launch_bounds__(kWalkThreads)
    attention_dots(AttentionProblem problem, const T* out, const T* dout, Dots dots,
                   float* values) {
  constexpr int kShared = 8;
  constexpr int kRows = kWalkThreads / kShared;
  const int lane = static_cast<int>(threadIdx.x) % kShared;
  const int queries = problem.positions.queries;
  const std::int64_t rows = dots.heads * queries;
  // All threads of a warp take part in an exchange: they walk equally often.
  for (std::int64_t first = std::int64_t{blockIdx.x} * kRows; first < rows;
       first += std::int64_t{gridDim.x} * kRows) {
    const std::int64_t index =
        first + threadIdx.x / kShared;  // the heads of a query are neighbours
    const std::int64_t head = index < rows ? dots.first_head + index % dots.heads : 0;
    const std::int64_t query = index < rows ? index / dots.heads : 0;
    const std::int64_t token = head / problem.heads * queries + query;
    const std::int64_t at = (token * problem.heads + head % problem.heads) * problem.dim;
    float sum = 0.0F;
    for (int column = 8 * lane; index < rows && column < problem.dim; column += 8 * kShared) {
      if (problem.wide && column + 8 <= problem.dim) {
        const auto a = load<8>(out + at + column);
        const auto b = load<8>(dout + at + column);
#pragma unroll
        for (int i = 0; i < 8; ++i) sum += widened(a.at[i]) * widened(b.at[i]);
      } else {
        for (int i = column; i < min(column + 8, problem.dim); ++i) {
          sum += widened(out[at + i]) * widened(dout[at + i]);
        }
      }
    }
    for (int by = 1; by < kShared; by *= 2) sum += __shfl_xor_sync(0xffffffffU, sum, by);
    if (lane == 0 && index < rows) values[(head - dots.first_head) * queries + query] = sum;
  }
}

// Calls run(dots) for as many groups of heads at a time as the work space holds the dots of.
template <class T, class Run>
void for_pieces_of_dots(const core::Work& work, const AttentionProblem& problem, const T* out,
                        const T* dout, const Run& run) {
  const std::int64_t queries = problem.positions.queries;
  const std::int64_t all = std::int64_t{problem.batch} * problem.heads;
  if (all * queries == 0) return;
  const std::int64_t group = problem.heads / problem.kv_heads;
  const Workspace space = workspace(work);
  auto* const values = static_cast<float*>(space.data);
  const std::int64_t bytes = group * queries * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t groups = space.bytes.count() / bytes;
  FM_CHECK(groups > 0,
           "attention of a device: a number per query of the heads of a group fits the "
           "work space of the queue (bytes=",
           bytes, ", work space=", space.bytes.count(), ")");
  for (std::int64_t first = 0; first < all; first += groups * group) {
    const std::int64_t heads = std::min(groups * group, all - first);
    const Dots dots{values, first, heads, first * queries};
    launch(work, "attention_dots", {{walk_blocks(work, heads * queries * 8), 1, 1}},
           attention_dots<T>, problem, out, dout, dots, values);
    run(dots);
  }
}

}  // namespace fm::kernels::cuda
