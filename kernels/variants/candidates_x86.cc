// What this x86-64 build holds, and what each variant asks of the CPU (CPUID, and an operating
// system that saves the registers).
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernels/cpu.h"
#include "kernels/variants/variant.h"

namespace fm::kernels::baseline {
extern const Variant kVariant;
}  // namespace fm::kernels::baseline
namespace fm::kernels::avx2 {
extern const Variant kVariant;
}  // namespace fm::kernels::avx2
namespace fm::kernels::avx512 {
extern const Variant kVariant;
}  // namespace fm::kernels::avx512

namespace fm::kernels {
namespace {

bool always() { return true; }
// GCC 12's __builtin_cpu_supports does not know it.
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
bool has_avx2() {
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 && has_f16c();
}
bool has_avx512() {
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
         has_f16c();
}

}  // namespace

std::span<const VariantCandidate> candidates() {
  static constexpr VariantCandidate kCandidates[] = {
      {&baseline::kVariant, always}, {&avx2::kVariant, has_avx2}, {&avx512::kVariant, has_avx512}};
  return kCandidates;
}

bool cpu_is_amd() { return __builtin_cpu_is("amd") != 0; }

bool avx512_bf16_runs_here() { return __builtin_cpu_supports("avx512bf16") != 0 && has_avx512(); }

bool amx_runs_here() {
  static const bool kRuns = [] {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    constexpr unsigned kBf16AndTiles = (1U << 22) | (1U << 24);
    if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
    if ((edx & kBf16AndTiles) != kBf16AndTiles || !has_avx512()) return false;
    constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
    constexpr int kTileData = 18;
    return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }();
  return kRuns;
}

}  // namespace fm::kernels
