// A CUDA device that no machine needs: the fake device's memory and times, CUDA's kernels in
// emulation, and products by a library that stands in for cuBLASLt (tests/cuda/fake_cublaslt.cc).
#pragma once

#include <memory>

#include "core/device.h"

namespace fm::emulated {

// `seed`: of the times of its queues. FME_CUDA_LIBS must name the folder of the library.
std::unique_ptr<core::Device> make_device(std::uint64_t seed);
// One more queue of such a device.
std::shared_ptr<core::Queue> make_queue(core::Device& device, std::uint64_t seed);

}  // namespace fm::emulated
