#include "device/cuda/cuda_call.h"

#include "core/check.h"
#include "core/text.h"
#include "device/cuda_problem.h"

namespace fm::device::cuda {

void check(cudaError_t error, const std::string& name, const char* what) {
  if (error == cudaSuccess) return;
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    std::size_t free = 0;
    std::size_t all = 0;
    const bool known = cudaMemGetInfo(&free, &all) == cudaSuccess;
    const auto text = [](std::size_t bytes) {
      return core::human(core::Bytes(static_cast<std::int64_t>(bytes)));
    };
    throw core::MachineError(
        core::ExitCode::kOutOfMemory,
        full_text(name, what, known ? text(free) + " of " + text(all) : "not known"));
  }
  throw core::MachineError(
      core::ExitCode::kDeviceFailed,
      fault_text(static_cast<int>(error), name, cudaGetErrorString(error), what));
}

}  // namespace fm::device::cuda
