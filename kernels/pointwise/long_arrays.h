// How loops over arrays that lie in memory walk them. It changes no result.
#pragma once

#include <cstdint>
#include <string_view>

namespace fm::kernels {

enum class ArrayHabit : std::uint8_t {
  kReadAhead,   // lines beyond the page are asked for (kernels/pointwise/memory_walks.h)
  kPastCaches,  // sums that find no room in the caches are stored past them
                // (kernels/pointwise/memory_walks.h)
};

// Both, but that AMD's CPUs do not ask ahead: with it an all-reduce in place takes 1.2 times as
// long on a Zen 4, where it gains 5 to 15 % on Intel's. The environment variables FME_READ_AHEAD
// and FME_PAST_CACHES, on or off, override it. Decided with the variant
// (kernels/variants/variant.h). UserError (10) for other values.
bool has_habit(ArrayHabit habit);
// The rule behind it: `wanted` is the variable's value, "" where it is unset.
bool choose_habit(ArrayHabit habit, std::string_view wanted, bool amd);

// "read ahead, large sums stored past the caches", as --report says it.
std::string_view array_habits();

}  // namespace fm::kernels
