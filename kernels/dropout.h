// Dropout (Srivastava et al., JMLR 15, 2014): a number becomes zero by chance, others are divided
// by the share that stays. What becomes of number e follows from (key, e) alone, so that forward,
// recomputation and backward agree in every layout.
#pragma once

#include <cstdint>

#include "core/work.h"

namespace fm::kernels {

// Number e is word e / 16 % 4 of the Philox block (core/philox.h) 16 (e / 64) + e % 16; it stays
// where that is `dropped` or more.
struct Dropout {
  std::uint64_t key = 0;
  std::uint32_t dropped = 0;  // of 2^32 words; 0: nothing is done
  float scale = 1.0F;         // of what stays
};
inline constexpr std::int64_t kDropoutGroup = 64;

// In place: x [count] are the numbers from `first` on.
template <class T>
void dropout(const core::Work& work, const Dropout& by, std::uint64_t first, std::int64_t count,
             T* x);

}  // namespace fm::kernels
