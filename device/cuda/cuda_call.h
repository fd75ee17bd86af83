// Calls of CUDA that must succeed.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace fm::device::cuda {

// Throws MachineError (27, out of memory 25) for an error. `what` was asked of the card `name`.
void check(cudaError_t error, const std::string& name, const char* what);

}  // namespace fm::device::cuda
