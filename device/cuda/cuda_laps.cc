#include "device/cuda/cuda_laps.h"

#include "device/cuda/cuda_call.h"

namespace fm::device::cuda {
namespace {

class CudaLap : public Lap {
 public:
  CudaLap(const OpenCard& card, cudaStream_t stream) : card_(card), stream_(stream) {
    check(cudaEventCreate(&begin_), card_.name, "cudaEventCreate");
    check(cudaEventCreate(&end_), card_.name, "cudaEventCreate");
    check(cudaEventRecord(begin_, stream_), card_.name, "the begin of a lap");
  }
  ~CudaLap() override {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  CudaLap(const CudaLap&) = delete;
  CudaLap& operator=(const CudaLap&) = delete;

  void end() override { check(cudaEventRecord(end_, stream_), card_.name, "the end of a lap"); }
  std::optional<double> milliseconds() override {
    const cudaError_t answer = cudaEventQuery(end_);
    if (answer == cudaErrorNotReady) return std::nullopt;
    check(answer, card_.name, "a product");
    float time = 0.0F;
    check(cudaEventElapsedTime(&time, begin_, end_), card_.name, "a product");
    return time;
  }

 private:
  const OpenCard& card_;
  cudaStream_t stream_;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

}  // namespace

std::unique_ptr<Lap> CudaLapClock::begin(void* stream) {
  return std::make_unique<CudaLap>(card_, static_cast<cudaStream_t>(stream));
}

}  // namespace fm::device::cuda
