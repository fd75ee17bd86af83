// AMX tiles that others use, too.
#include "kernels/gemm/contended.h"

#include <gtest/gtest.h>

#include <cmath>

namespace fm::kernels {
namespace {

TEST(ContendedAmx, IsSaidWithBothRatesWhereItIsSlower) {
  EXPECT_EQ(contended_note({.chosen = 248.0, .onednn = 154.0}), "");
  EXPECT_EQ(contended_note({.chosen = 126.0, .onednn = 140.0}), "");  // 0.9 of it
  const std::string note = contended_note({.chosen = 100.6, .onednn = 154.4});
  EXPECT_NE(note.find("reach 101 GFLOP/s on it, oneDNN's on AVX-512 154"), std::string::npos);
  EXPECT_NE(note.find("FME_GEMM=onednn"), std::string::npos);
}

TEST(ContendedAmx, RatesAreMeasuredOnAnyCpu) {
  const GemmRates rates = measure_gemm({});
  EXPECT_GT(rates.chosen, 0.0);
  EXPECT_GT(rates.onednn, 0.0);
  EXPECT_TRUE(std::isfinite(rates.chosen) && std::isfinite(rates.onednn));
}

}  // namespace
}  // namespace fm::kernels
