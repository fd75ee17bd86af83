// How a kernel of this CPU becomes one of the fake device.
#pragma once

#include <type_traits>

#include "core/work.h"
#include "device/fake/fake_queue.h"
#include "device/fake/kernel_arguments.h"

namespace fm::device {

// The same work on this CPU, in memory that kernels may touch.
inline core::Work work_here(const core::Work& work, const TwoViews& views) {
  return {work.arena.moved_to(views.seen_by_kernels(work.arena.data())), work.threads, nullptr};
}

// The arguments as they are now, for a kernel that is called later.
template <auto kKernel, class... Arguments>
void queue_kernel(const core::Work& work, Arguments... arguments) {
  auto& queue = static_cast<FakeQueue&>(*work.queue);
  (see_as_kernel(queue.views(), arguments), ...);
  queue.push([here = work_here(work, queue.views()), arguments...]() mutable {
    kKernel(here, arguments...);
  });
}

// A public kernel that is queued.
template <auto kKernel>
struct Later;
template <class W, class... Parameters, void (*kKernel)(W&, Parameters...)>
struct Later<kKernel> {
  static void run(W& work, Parameters... parameters) {
    queue_kernel<kKernel>(work, std::decay_t<Parameters>(parameters)...);
  }
};

}  // namespace fm::device
