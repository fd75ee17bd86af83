// Where bytes sleep between steps.
#pragma once

#include <cstdint>

namespace fm::core {

enum class Tier : std::uint8_t { kDevice, kHost, kNvme };

}  // namespace fm::core
