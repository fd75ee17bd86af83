// Where an emulated kernel runs: at once, or on the queue of a fake device.
#pragma once

#include <tuple>

#include "core/work.h"
#include "device/fake/fake_queue.h"
#include "device/fake/kernel_arguments.h"
#include "kernels/cuda/stream.h"
#include "tests/emulated/block.h"

namespace fm::emulated {

// An odd number, and few, so that loops over blocks run more than once and end unevenly.
inline constexpr int kMultiprocessors = 3;

// Of the queue; where there is none, memory of this thread that is poisoned by every call.
kernels::cuda::Workspace workspace(const core::Work& work);
int multiprocessors(const core::Work& work);

template <class Kernel, class Arguments>
void start(const core::Work& work, const Grid& grid, Kernel* kernel, Arguments arguments) {
  if (work.queue == nullptr) {
    return run_grid(grid, [&] { std::apply(kernel, arguments); });
  }
  auto& queue = dynamic_cast<device::FakeQueue&>(*work.queue);
  std::apply([&](auto&... each) { (device::see_as_kernel(queue.views(), each), ...); }, arguments);
  queue.push([grid, kernel, arguments] { run_grid(grid, [&] { std::apply(kernel, arguments); }); });
}

}  // namespace fm::emulated
