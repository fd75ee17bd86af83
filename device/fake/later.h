// How a kernel of this CPU becomes one of the fake device.
#pragma once

#include <type_traits>

#include "core/work.h"
#include "device/fake/kernel_arguments.h"
#include "device/fake/fake_queue.h"

namespace fm::device {

// The same work on this CPU, in memory that kernels may touch.
inline core::Work work_here(const core::Work& work, const TwoViews& views) {
  return {work.arena.moved_to(views.seen_by_kernels(work.arena.data())), work.threads, nullptr};
}

// A public kernel that is queued: called later, with the arguments that it has now.
template <auto kKernel>
struct Later;
template <class... Parameters, void (*kKernel)(const core::Work&, Parameters...)>
struct Later<kKernel> {
  static void run(const core::Work& work, Parameters... parameters) {
    queue(work, std::decay_t<Parameters>(parameters)...);
  }

 private:
  template <class... Arguments>
  static void queue(const core::Work& work, Arguments... arguments) {
    auto& queue = static_cast<FakeQueue&>(*work.queue);
    (see_as_kernel(queue.views(), arguments), ...);
    queue.push(
        [here = work_here(work, queue.views()), arguments...] { kKernel(here, arguments...); });
  }
};
template <class... Parameters, void (*kKernel)(core::Work&, Parameters...)>
struct Later<kKernel> {
  static void run(core::Work& work, Parameters... parameters) {
    queue(work, std::decay_t<Parameters>(parameters)...);
  }

 private:
  template <class... Arguments>
  static void queue(const core::Work& work, Arguments... arguments) {
    auto& queue = static_cast<FakeQueue&>(*work.queue);
    (see_as_kernel(queue.views(), arguments), ...);
    queue.push([here = work_here(work, queue.views()), arguments...]() mutable {
      kKernel(here, arguments...);
    });
  }
};

}  // namespace fm::device
