// Types of kernels with and without their first parameter, the Work.
#pragma once

#include "core/work.h"

namespace fm::kernels {

template <class Kernel>
struct WorkRemoved;
template <class... Parameters>
struct WorkRemoved<void(const core::Work&, Parameters...)> {
  using Type = void(Parameters...);
};

// Of a public kernel's type: what runs on a queue, and what runs here at once.
template <class Kernel>
using WithWork = Kernel;
template <class Kernel>
using WithoutWork = typename WorkRemoved<Kernel>::Type;

}  // namespace fm::kernels
