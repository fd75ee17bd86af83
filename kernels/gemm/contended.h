// Hosts whose cores share AMX tiles with other guests: there our products may be slower than those
// of AVX-512, by times that change within a minute.
#pragma once

#include <string>

#include "core/work.h"

namespace fm::kernels {

// Of fp32 products, in GFLOP/s.
struct GemmRates {
  double chosen = 0.0;  // what gemm() takes
  double onednn = 0.0;
};

// The best of some products each, by turns, on the threads of `work`; takes some 0.05 s and 5 MB.
GemmRates measure_gemm(const core::Work& work);

// Both rates and the cure, where AMX is less than 0.9 times as fast; else "".
std::string contended_note(const GemmRates& rates);

}  // namespace fm::kernels
