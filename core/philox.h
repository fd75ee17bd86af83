// Philox4x32-10: random numbers as a pure function of (key, counter). Salmon, Moraes, Dror, Shaw,
// "Parallel random numbers: as easy as 1, 2, 3", SC'11. Keyed by logical position, never by rank.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace fm::core {

using PhiloxBlock = std::array<std::uint32_t, 4>;

PhiloxBlock philox(std::uint64_t key, std::uint64_t counter_low, std::uint64_t counter_high = 0);

// Uniform in (0, 1], 24 bits.
inline float uniform_of(std::uint32_t bits) {
  return (static_cast<float>(bits >> 8) + 1.0F) * 0x1.0p-24F;
}

// Key of a named stream, e.g. (seed, parameter name): FNV-1a over the name, mixed with the seed.
std::uint64_t stream_key(std::uint64_t seed, std::string_view name);

}  // namespace fm::core
