#include "model/units/dropout.h"

#include <cmath>

#include "core/philox.h"

namespace fm::model {

kernels::Dropout dropout_of(const UnitInput& input, double probability, std::uint64_t where) {
  if (!input.dropout || probability == 0.0) return {};
  const core::PhiloxBlock block =
      core::philox(input.dropout->seed, static_cast<std::uint64_t>(input.dropout->step), where);
  return {.key = block[0] | std::uint64_t{block[1]} << 32,
          .dropped = static_cast<std::uint32_t>(std::llround(probability * 0x1p32)),
          .scale = static_cast<float>(1.0 / (1.0 - probability))};
}

kernels::Dropout dropout_at(const UnitInput& input, double probability, std::int64_t layer,
                            DropPlace place) {
  constexpr std::uint64_t kPlaces = 4;
  return dropout_of(
      input, probability,
      static_cast<std::uint64_t>(layer) * kPlaces + static_cast<std::uint64_t>(place));
}

}  // namespace fm::model
