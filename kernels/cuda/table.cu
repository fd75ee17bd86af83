#include "kernels/cuda/table.h"

namespace fm::kernels::cuda {

const DeviceKernels& own_kernels() {
  static const DeviceKernels kAll = [] {
    DeviceKernels table;
    fill_activations(table);
    fill_attention(table);
    fill_attention_backward(table);
    fill_attention_cached(table);
    fill_attention_scalar(table);
    fill_cross_entropy(table);
    fill_elements(table);
    fill_embedding(table);
    fill_norms(table);
    fill_optimizers(table);
    fill_rope(table);
    fill_sums(table);
    return table;
  }();
  return kAll;
}

}  // namespace fm::kernels::cuda
