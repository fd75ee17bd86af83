// The emulation itself: threads, barriers, exchanges and tensor products of a warp.
#include "tests/emulated/block.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "kernels/cuda/launch.h"
#include "tests/emulated/emulated_case.h"

namespace fm::emulated {
namespace {

namespace cuda = kernels::cuda;

// Each thread adds what its neighbour has written before the barrier.
void neighbours(int* values, int* sums) {
  auto& memory = cuda::shared_memory<int[64]>();
  memory[threadIdx.x] = values[threadIdx.x];
  __syncthreads();
  sums[threadIdx.x] = values[threadIdx.x] + memory[(threadIdx.x + 33) % 64];
}

std::vector<int> run_neighbours() {
  std::vector<int> values;
  for (int i = 0; i < 64; ++i) values.push_back(i * i);
  std::vector<int> sums(64);
  cuda::launch(core::Work(), "neighbours", {{1, 1, 1}, {64, 1, 1}, 64 * sizeof(int)}, neighbours,
               values.data(), sums.data());
  return sums;
}

TEST(EmulatedBlock, ABarrierOrdersThreads) {
  const std::vector<int> sums = in_every_order(run_neighbours);
  for (int i = 0; i < 64; ++i) {
    const int other = (i + 33) % 64;
    EXPECT_EQ(sums[static_cast<std::size_t>(i)], i * i + other * other);
  }
}

TEST(EmulatedBlock, AMissingBarrierIsSeen) { expect_every_barrier_needed(run_neighbours); }

void half_waits() {
  if (threadIdx.x < 32) __syncthreads();
}
TEST(EmulatedBlock, ABarrierThatSomeLeaveOutIsRefused) {
  EXPECT_THROW(cuda::launch(core::Work(), "half", {{1, 1, 1}, {64, 1, 1}}, half_waits),
               std::runtime_error);
  EXPECT_EQ(run_neighbours().size(), 64U);  // and the next kernel runs
}

void sixteen_exchange(int* out) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_xor_sync(0xffffU, 1, 1);
}
TEST(EmulatedBlock, AnExchangeWithoutAllThreadsIsRefused) {
  std::vector<int> out(32);
  EXPECT_THROW(
      cuda::launch(core::Work(), "some", {{1, 1, 1}, {32, 1, 1}}, sixteen_exchange, out.data()),
      std::runtime_error);
}

void copies(const unsigned* from, unsigned* early, unsigned* late) {
  auto& memory = cuda::shared_memory<unsigned[8]>();
  cuda::async_copy_16(memory, from);
  cuda::async_commit();
  for (int i = 4; i < 8; ++i) cuda::async_copy_4(memory + i, from + i);
  cuda::async_commit();
  cuda::async_wait<1>();
  std::memcpy(early, memory, sizeof(memory));
  cuda::async_wait<0>();
  std::memcpy(late, memory, sizeof(memory));
}
TEST(EmulatedBlock, AsynchronousCopiesArriveWhenTheyAreWaitedFor) {
  const std::vector<unsigned> from = {1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<unsigned> early(8);
  std::vector<unsigned> late(8);
  cuda::launch(core::Work(), "copies", {{1, 1, 1}, {1, 1, 1}, 32}, copies, from.data(),
               early.data(), late.data());
  EXPECT_EQ(early, (std::vector<unsigned>{1, 2, 3, 4, ~0U, ~0U, ~0U, ~0U}));
  EXPECT_EQ(late, from);
}

// c = a b by the layouts that PTX documents, from shared memory by ldmatrix.
struct Tile {
  std::uint16_t a[16][16];
  std::uint16_t b[16][8];
};
void multiply(const std::uint16_t* a, const std::uint16_t* b, float* c) {
  auto& tile = cuda::shared_memory<Tile>();
  for (unsigned i = threadIdx.x; i < 256; i += 32) tile.a[i / 16][i % 16] = a[i];
  for (unsigned i = threadIdx.x; i < 128; i += 32) tile.b[i / 8][i % 8] = b[i];
  __syncthreads();
  const unsigned lane = threadIdx.x;
  std::uint32_t left[4];
  cuda::load_matrices(left, &tile.a[lane % 16][lane / 16 * 8]);
  std::uint32_t right[4];
  cuda::load_transposed(right, &tile.b[lane % 16][0]);
  float sums[4] = {1.0F, 1.0F, 1.0F, 1.0F};
  cuda::mma<core::Bf16>(sums, left, {right[0], right[1]});
  c[lane / 4 * 8 + lane % 4 * 2] = sums[0];
  c[lane / 4 * 8 + lane % 4 * 2 + 1] = sums[1];
  c[(lane / 4 + 8) * 8 + lane % 4 * 2] = sums[2];
  c[(lane / 4 + 8) * 8 + lane % 4 * 2 + 1] = sums[3];
}
TEST(EmulatedBlock, AWarpMultipliesTiles) {
  const auto a = kernels::random_narrows<core::Bf16>(256, 1);
  const auto b = kernels::random_narrows<core::Bf16>(128, 2);
  std::vector<float> c(128);
  cuda::launch(core::Work(), "multiply", {{1, 1, 1}, {32, 1, 1}, sizeof(Tile)}, multiply,
               &a[0].bits, &b[0].bits, c.data());
  for (std::size_t row = 0; row < 16; ++row) {
    for (std::size_t column = 0; column < 8; ++column) {
      double sum = 1.0;
      for (std::size_t k = 0; k < 16; ++k) {
        sum += static_cast<double>(core::to_float(a[row * 16 + k])) *
               static_cast<double>(core::to_float(b[k * 8 + column]));
      }
      EXPECT_NEAR(c[row * 8 + column], sum, 1e-5);
    }
  }
}

}  // namespace
}  // namespace fm::emulated
