// Matrix products of row-major fp32 matrices. What computes follows from the CPU (CPUID) and the
// shape, never from a timing: our AMX kernel where the CPU has AMX and every side is 32 or more,
// oneDNN for the rest. FME_GEMM=onednn or amx overrides the CPU's part.
#pragma once

#include <cstdint>
#include <string>

namespace fm::kernels {

enum class Form : std::uint8_t { kAsIs, kTransposed };
enum class Beta : std::uint8_t { kZero, kOne };

struct GemmShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
};

struct Operand {
  const float* data = nullptr;
  std::int64_t stride = 0;  // elements between rows as stored (leading dimension)
  Form form = Form::kAsIs;  // kTransposed: stored as the transpose of what the product needs
};

struct Target {
  float* data = nullptr;
  std::int64_t stride = 0;
  Beta beta = Beta::kZero;  // kZero assigns (old values, NaN too, are ignored), kOne adds
};

// C [m, n] = op(A) [m, k] op(B) [k, n] + beta C. Any thread may call; C overlaps neither operand.
void gemm(const GemmShape& shape, const Operand& a, const Operand& b, const Target& c);

// Library, version and instruction set for the banner, e.g. "oneDNN 2.6.3 (avx512_core)".
// UserError (10) when FME_GEMM names what does not run here.
std::string gemm_library();

// Threads that kernels called by this thread use: OpenMP's default (OMP_NUM_THREADS, else all
// cores) until set.
void set_kernel_threads(int threads);
int kernel_threads();

}  // namespace fm::kernels
