// All kernels of CUDA devices: our own, cuBLASLt's products, and cuDNN's attention
// where a queue has it.
#pragma once

#include "kernels/variants/table.h"

namespace fm::device::cuda {

const kernels::DeviceKernels& kernel_table();

}  // namespace fm::device::cuda
