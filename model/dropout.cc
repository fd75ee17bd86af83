#include "model/dropout.h"

#include <cmath>

#include "core/philox.h"

namespace fm::model {

kernels::Dropout dropout_at(const UnitInput& input, double probability, std::int64_t layer,
                            DropPlace place) {
  if (!input.dropout || probability == 0.0) return {};
  constexpr std::uint64_t kPlaces = 4;
  const std::uint64_t where =
      static_cast<std::uint64_t>(layer) * kPlaces + static_cast<std::uint64_t>(place);
  const core::PhiloxBlock block =
      core::philox(input.dropout->seed, static_cast<std::uint64_t>(input.dropout->step), where);
  return {.key = block[0] | std::uint64_t{block[1]} << 32,
          .dropped = static_cast<std::uint32_t>(std::llround(probability * 0x1p32)),
          .scale = static_cast<float>(1.0 / (1.0 - probability))};
}

}  // namespace fm::model
