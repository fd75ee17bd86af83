// What the sources of public kernels share: the chosen variant's kernels of a type, and the events
// of the trace.
#pragma once

#include <type_traits>

#include "core/check.h"
#include "core/queue.h"
#include "core/trace.h"
#include "kernels/variants/variant.h"

namespace fm::kernels::dispatch {

// Bytes are what must be read and written at least, each element once.
constexpr core::TraceForm of_elements(const char* name) {
  return {name, core::TraceKind::kKernel, {"elements", "bytes"}};
}
constexpr core::TraceForm of_rows(const char* name) {
  return {name, core::TraceKind::kKernel, {"rows", "width", "bytes"}};
}

// `passes`: how many arrays of this many elements of T are read or written.
template <class T = float>
core::TraceValues elements(std::int64_t count, std::int64_t passes) {
  return {count, std::int64_t{sizeof(T)} * passes * count};
}
inline core::TraceValues rows(RowShape shape, std::int64_t element_bytes) {
  return {shape.rows, shape.width, element_bytes * shape.rows * shape.width};
}
template <class T = float>
core::TraceValues rows(std::int64_t count, std::int64_t width, std::int64_t passes) {
  return rows({count, width}, std::int64_t{sizeof(T)} * passes);
}

template <class T>
using DeviceElements = ElementTable<T, WithWork>;

template <class T, class Three>
const auto& of_type(const Three& table) {
  if constexpr (std::is_same_v<T, float>) {
    return table.fp32;
  } else if constexpr (std::is_same_v<T, core::Bf16>) {
    return table.bf16;
  } else {
    return table.fp16;
  }
}

// Of the device of a Work that has a queue.
inline const DeviceKernels& kernels_of(const core::Work& work) {
  return static_cast<const DeviceKernels&>(work.queue->kernels());
}

// A device's kernel, which must be there.
template <class Kernel>
Kernel* need(Kernel* kernel) {
  FM_CHECK(kernel != nullptr, "this device has no such kernel");
  return kernel;
}

// Runs a kernel where the work is: on its queue, or here and now by this CPU's variant.
template <class Kernel, class Here, class... Arguments>
void launch(const core::Work& work, Kernel* KernelTable<WithWork>::*on_queue,
            Here* CpuKernels::*here, const Arguments&... arguments) {
  if (work.queue == nullptr) return (chosen_variant().*here)(arguments...);
  need(kernels_of(work).*on_queue)(work, arguments...);
}
template <class T, class Kernel, class Here, class... Arguments>
void launch(const core::Work& work, Kernel* ElementTable<T, WithWork>::*on_queue,
            Here* ElementTable<T, WithoutWork>::*here, const Arguments&... arguments) {
  if (work.queue == nullptr) return (of_type<T>(chosen_variant()).*here)(arguments...);
  need(of_type<T>(kernels_of(work)).*on_queue)(work, arguments...);
}

}  // namespace fm::kernels::dispatch
