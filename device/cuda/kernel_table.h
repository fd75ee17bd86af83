// All kernels of CUDA devices: our own and cuBLASLt's products.
#pragma once

#include "kernels/variants/table.h"

namespace fm::device::cuda {

const kernels::DeviceKernels& kernel_table();

}  // namespace fm::device::cuda
