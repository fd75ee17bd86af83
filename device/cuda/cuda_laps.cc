#include "device/cuda/cuda_laps.h"

#include "core/check.h"
#include "device/cuda/cuda_call.h"

namespace fm::device::cuda {
namespace {

class CudaMoment : public Moment {
 public:
  CudaMoment(const OpenCard& card, cudaStream_t stream) : card_(card) {
    check(cudaEventCreate(&event_), card_.name, "cudaEventCreate");
    check(cudaEventRecord(event_, stream), card_.name, "cudaEventRecord");
  }
  ~CudaMoment() override { card_.drop(event_); }
  CudaMoment(const CudaMoment&) = delete;
  CudaMoment& operator=(const CudaMoment&) = delete;

  bool has_come() const override { return card_.has_come(event_, kUnknown); }
  void finish() const override { card_.finish(event_, kUnknown); }
  double milliseconds_since(const Moment& earlier) const override {
    const auto* const other = dynamic_cast<const CudaMoment*>(&earlier);
    FM_CHECK(other != nullptr, "a moment of another clock");
    card_.use();
    float time = 0.0F;
    check(cudaEventElapsedTime(&time, other->event_, event_), card_.name, "cudaEventElapsedTime");
    return time;
  }

 private:
  static constexpr const char* kUnknown = "what was queued before a time was asked for";
  const OpenCard& card_;
  cudaEvent_t event_ = nullptr;
};

class CudaLap : public Lap {
 public:
  CudaLap(const OpenCard& card, cudaStream_t stream)
      : card_(card), stream_(stream), begin_(card, stream) {}

  void end() override { end_ = std::make_unique<CudaMoment>(card_, stream_); }
  std::optional<double> milliseconds() override {
    if (!end_->has_come()) return std::nullopt;
    return end_->milliseconds_since(begin_);
  }

 private:
  const OpenCard& card_;
  cudaStream_t stream_;
  CudaMoment begin_;
  std::unique_ptr<CudaMoment> end_;
};

}  // namespace

std::unique_ptr<Lap> CudaLapClock::begin(void* stream) {
  return std::make_unique<CudaLap>(card_, static_cast<cudaStream_t>(stream));
}

std::unique_ptr<Moment> CudaMomentClock::mark(void* stream) {
  return std::make_unique<CudaMoment>(card_, static_cast<cudaStream_t>(stream));
}

}  // namespace fm::device::cuda
