// The twin of cudnn.cc where the headers of its front end are not.
#include "device/cuda/cudnn.h"

namespace fm::device::cuda {

OpenedCudnn open_cudnn(const CudnnCard&) {
  return {nullptr, "this build has no cuDNN: its headers were not there"};
}

}  // namespace fm::device::cuda
