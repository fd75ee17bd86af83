// In builds with sanitizers, which the libraries of products stay out of.
#include "device/fake/fake_kernels.h"

namespace fm::device {

void fill_products(kernels::DeviceKernels&) {}

}  // namespace fm::device
