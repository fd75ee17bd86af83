// The table of the kernels of CUDA devices, of which every source here fills its part.
#pragma once

#include "kernels/variants/table.h"

namespace fm::kernels::cuda {

// All but products, whose library belongs to a device.
const DeviceKernels& own_kernels();

void fill_activations(DeviceKernels& table);
void fill_attention(DeviceKernels& table);
void fill_attention_backward(DeviceKernels& table);
void fill_attention_cached(DeviceKernels& table);
void fill_attention_scalar(DeviceKernels& table);
void fill_cross_entropy(DeviceKernels& table);
void fill_elements(DeviceKernels& table);
void fill_embedding(DeviceKernels& table);
void fill_norms(DeviceKernels& table);
void fill_optimizers(DeviceKernels& table);
void fill_rope(DeviceKernels& table);
void fill_sums(DeviceKernels& table);

}  // namespace fm::kernels::cuda
