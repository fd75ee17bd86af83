// What kernels/dropout.h promises of a number, by the definition.
#pragma once

#include "core/philox.h"
#include "kernels/dropout.h"

namespace fm::kernels {

inline bool stays_in(const Dropout& by, std::uint64_t number) {
  const core::PhiloxBlock block = core::philox(by.key, number / 64 * 16 + number % 16);
  return block[static_cast<std::size_t>(number / 16 % 4)] >= by.dropped;
}

}  // namespace fm::kernels
