// Types of kernels with and without their first parameter, the Work.
#pragma once

#include <type_traits>

#include "core/work.h"

namespace fm::kernels {

template <class Kernel>
struct WorkRemoved;
template <class... Parameters>
struct WorkRemoved<void(const core::Work&, Parameters...)> {
  using Type = void(Parameters...);
};

// Of a public kernel's type: what runs on a queue, and what runs here at once. nvcc hands its host
// compiler the type of a kernel's name as a reference.
template <class Kernel>
using WithWork = std::remove_reference_t<Kernel>;
template <class Kernel>
using WithoutWork = typename WorkRemoved<std::remove_reference_t<Kernel>>::Type;

}  // namespace fm::kernels
