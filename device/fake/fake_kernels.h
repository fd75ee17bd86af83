// The kernels of the fake device: this CPU's, queued.
#pragma once

#include "kernels/variants/table.h"

namespace fm::device {

// In every byte of what is not written: NaN as a number of any type, -1 as an id.
inline constexpr int kPoison = 0xFF;

const kernels::DeviceKernels& fake_kernels();
// Products and attention of them.
void fill_products(kernels::DeviceKernels& table);

}  // namespace fm::device
