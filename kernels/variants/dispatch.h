// What the sources of public kernels share: the chosen variant's kernels of a type, and the events
// of the trace.
#pragma once

#include <type_traits>

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
const ElementKernels<T>& chosen_kernels() {
  if constexpr (std::is_same_v<T, float>) {
    return chosen_variant().fp32;
  } else if constexpr (std::is_same_v<T, core::Bf16>) {
    return chosen_variant().bf16;
  } else {
    return chosen_variant().fp16;
  }
}

}  // namespace fm::kernels::dispatch
