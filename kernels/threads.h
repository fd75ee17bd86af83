// The threads that products use where nobody says how many.
#pragma once

namespace fm::kernels {

// The number of threads for the calls of this thread: OpenMP's default (OMP_NUM_THREADS, else all
// cores) until set. A product uses the threads of its Work.
void set_kernel_threads(int threads);
int kernel_threads();

}  // namespace fm::kernels
