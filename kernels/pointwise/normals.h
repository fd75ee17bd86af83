// Normal random numbers out of Philox4x32-10 (core/philox.h) by Box and Muller (1958), in fp64 and
// rounded once to fp32.
#pragma once

#include <cstdint>

namespace fm::kernels {

struct NormalStream {
  std::uint64_t key = 0;
  double scale = 1.0;  // standard deviation
};

inline constexpr std::int64_t kNormalsPerBlock = 4;

// out [4 blocks]: element 4 b + i is number i of Philox block first_block + b, times scale. Words
// w0 .. w3 of a block give scale sqrt(-2 ln u0) {cos, sin}(2 pi u1), then the same of u2 and u3,
// with u as core::uniform_of says. A number so close to the middle between two floats that another
// libm may round it to the other side, or too close to 0 or infinity, is NaN: about one in 200,000.
// Returns how many there are at most. All others equal what any libm's log, cos and sin give.
std::int64_t normals(const NormalStream& stream, std::uint64_t first_block, std::int64_t blocks,
                     float* out);

}  // namespace fm::kernels
