#include "cli/machine_report.h"

#include "comm/meet/world.h"
#include "core/check.h"
#include "core/text.h"
#include "kernels/attention/attention.h"
#include "kernels/gemm/gemm.h"
#include "kernels/variants/variant.h"
#include "machine/cores.h"
#include "machine/limits.h"

namespace fm::cli {
namespace {

std::string affinity() {
  const std::vector<int> cpus = machine::allowed_cpus();
  return core::concat("CPUs ", machine::ranges(cpus), " (", cpus.size(), " of ",
                      machine::online_cpus(), ")");
}

}  // namespace

std::string machine_line(const std::string& threads) {
  const std::string cpuinfo = machine::content_of("/proc/cpuinfo");
  return core::concat(machine::cpu_model(cpuinfo), ", ", threads, ", kernels ",
                      kernels::chosen_variant().name, ", products ",
                      kernels::gemm_library(core::DType::kF32), " (more: --report)");
}

std::vector<std::string> report_lines(const std::string& threads) {
  const std::string cpuinfo = machine::content_of("/proc/cpuinfo");
  return {"CPU        " + machine::cpu_model(cpuinfo),
          "SIMD       " + machine::instruction_sets(cpuinfo),
          "kernels    " + std::string(kernels::chosen_variant().name) + " (FME_SIMD sets it)",
          "GEMM       " + kernels::gemm_library(core::DType::kF32) + " (FME_GEMM sets it)",
          "GEMM bf16  " + kernels::gemm_library(core::DType::kBF16),
          "GEMM fp16  " + kernels::gemm_library(core::DType::kF16),
          "attention  " + kernels::attention_library() + " (FME_GEMM sets it)",
          "threads    " + threads + " (--threads N sets it)",
          "affinity   " + affinity(),
          "RAM        " + machine::memory_line(machine::content_of("/proc/meminfo")),
          "MPI        " + comm::mpi_version(),
          std::string("LibTorch   ") + FM_TORCH_VERSION};
}

}  // namespace fm::cli
