#include "device/cuda/kernel_table.h"

#include "device/cuda/card_attention.h"
#include "device/cuda/cublaslt.h"
#include "kernels/cuda/table.h"

namespace fm::device::cuda {

const kernels::DeviceKernels& kernel_table() {
  static const kernels::DeviceKernels kAll = [] {
    kernels::DeviceKernels table = kernels::cuda::own_kernels();
    fill_products(table);
    fill_attention(table);
    return table;
  }();
  return kAll;
}

}  // namespace fm::device::cuda
