// Where no wider instruction set is built: other processors, and sanitizers, whose unoptimized
// inline functions must not be compiled for a CPU that may not be there.
#include "kernels/variant.h"

namespace fm::kernels::baseline {
extern const Variant kVariant;
}  // namespace fm::kernels::baseline

namespace fm::kernels {

std::span<const Candidate> candidates() {
  static constexpr Candidate kCandidates[] = {{&baseline::kVariant, [] { return true; }}};
  return kCandidates;
}

}  // namespace fm::kernels
