#include "device/cuda/cuda_call.h"

#include "core/check.h"
#include "device/cuda_problem.h"

namespace fm::device::cuda {

void check(cudaError_t error, const std::string& name, const char* what) {
  if (error == cudaSuccess) return;
  throw core::MachineError(
      core::ExitCode::kDeviceFailed,
      fault_text(static_cast<int>(error), name, cudaGetErrorString(error), what));
}

}  // namespace fm::device::cuda
