// The arguments of a kernel as it sees them: every pointer and span in them, however deep, points
// to the same bytes of the other view.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

#include "device/fake/two_views.h"

namespace fm::device {

// Converts to every type, where the compiler only asks whether it could.
struct AnyField {
  template <class T>
  operator T() const;  // NOLINT(google-explicit-constructor): that is its purpose
};

template <class T, std::size_t... kIndex>
constexpr bool has_fields(std::index_sequence<kIndex...>) {
  return requires { T{(static_cast<void>(kIndex), AnyField())...}; };
}

// The number of fields of an aggregate.
template <class T, std::size_t kCount = 16>
constexpr std::size_t field_count() {
  if constexpr (kCount == 0 || has_fields<T>(std::make_index_sequence<kCount>())) {
    return kCount;
  } else {
    return field_count<T, kCount - 1>();
  }
}

// Calls run(field) for every field.
template <class T, class Run>
void for_every_field(T& value, const Run& run) {
  constexpr std::size_t kFields = field_count<T>();
  static_assert(kFields < 15, "write one more line for an aggregate of so many fields");
  const auto all = [&](auto&... fields) { (run(fields), ...); };
  if constexpr (kFields == 1) {
    auto& [a] = value;
    all(a);
  } else if constexpr (kFields == 2) {
    auto& [a, b] = value;
    all(a, b);
  } else if constexpr (kFields == 3) {
    auto& [a, b, c] = value;
    all(a, b, c);
  } else if constexpr (kFields == 4) {
    auto& [a, b, c, d] = value;
    all(a, b, c, d);
  } else if constexpr (kFields == 5) {
    auto& [a, b, c, d, e] = value;
    all(a, b, c, d, e);
  } else if constexpr (kFields == 6) {
    auto& [a, b, c, d, e, f] = value;
    all(a, b, c, d, e, f);
  } else if constexpr (kFields == 7) {
    auto& [a, b, c, d, e, f, g] = value;
    all(a, b, c, d, e, f, g);
  } else if constexpr (kFields == 8) {
    auto& [a, b, c, d, e, f, g, h] = value;
    all(a, b, c, d, e, f, g, h);
  } else if constexpr (kFields == 9) {
    auto& [a, b, c, d, e, f, g, h, i] = value;
    all(a, b, c, d, e, f, g, h, i);
  } else if constexpr (kFields == 10) {
    auto& [a, b, c, d, e, f, g, h, i, j] = value;
    all(a, b, c, d, e, f, g, h, i, j);
  } else if constexpr (kFields == 11) {
    auto& [a, b, c, d, e, f, g, h, i, j, k] = value;
    all(a, b, c, d, e, f, g, h, i, j, k);
  } else if constexpr (kFields == 12) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l] = value;
    all(a, b, c, d, e, f, g, h, i, j, k, l);
  } else if constexpr (kFields == 13) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m] = value;
    all(a, b, c, d, e, f, g, h, i, j, k, l, m);
  } else if constexpr (kFields == 14) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n] = value;
    all(a, b, c, d, e, f, g, h, i, j, k, l, m, n);
  }
}

template <class T>
inline constexpr bool kIsSpan = false;
template <class T>
inline constexpr bool kIsSpan<std::span<T>> = true;
template <class T>
inline constexpr bool kIsArray = false;
template <class T, std::size_t kCount>
inline constexpr bool kIsArray<std::array<T, kCount>> = true;

template <class T>
void see_as_kernel(const TwoViews& views, T& argument) {
  if constexpr (std::is_pointer_v<T>) {
    argument = views.seen_by_kernels(argument);
  } else if constexpr (kIsSpan<T>) {
    argument = T(views.seen_by_kernels(argument.data()), argument.size());
  } else if constexpr (kIsArray<T>) {
    for (auto& element : argument) see_as_kernel(views, element);
  } else if constexpr (!std::is_arithmetic_v<T> && !std::is_enum_v<T>) {
    static_assert(std::is_aggregate_v<T>, "an argument of a kernel is a number or an aggregate");
    for_every_field(argument, [&](auto& field) { see_as_kernel(views, field); });
  }
}

}  // namespace fm::device
