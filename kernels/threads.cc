#include "kernels/threads.h"

#include <omp.h>

namespace fm::kernels {

void set_kernel_threads(int threads) { omp_set_num_threads(threads); }
int kernel_threads() { return omp_get_max_threads(); }

}  // namespace fm::kernels
