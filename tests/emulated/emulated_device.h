// A CUDA device that no machine needs: the fake device's memory and times, CUDA's kernels in
// emulation, and products by a library that stands in for cuBLASLt (tests/cuda/fake_cublaslt.cc).
#pragma once

#include <cstdint>
#include <memory>

#include "core/device.h"

namespace fm::emulated {

// What attends: CUDA's kernels, or this CPU's, as a library of attention that does the backward
// pass a group of heads at a time.
enum class Attention : std::uint8_t { kKernels, kLibrary };

// `seed`: of the times of its queues. FME_CUDA_LIBS must name the folder of the library.
std::unique_ptr<core::Device> make_device(std::uint64_t seed,
                                          Attention attention = Attention::kKernels);
// How many pieces of attention that library has been asked for, by all devices.
int attention_pieces_done();
// How many products the fake cuBLASLt has been asked for.
long products_done();
// Those of which a matrix has rows that begin elsewhere than at multiples of 16 bytes: the real
// library has slow kernels for them.
long slow_products_done();
// One more queue of such a device.
std::shared_ptr<core::Queue> make_queue(core::Device& device, std::uint64_t seed);

}  // namespace fm::emulated
