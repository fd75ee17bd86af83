#include "device/cuda/queue_times.h"

#include <cmath>

#include "core/trace.h"

namespace fm::device::cuda {
namespace {

// A card's times are floats of milliseconds: a microsecond is known of so many.
constexpr std::int64_t kOld = 10'000'000'000;

}  // namespace

void QueueTimes::tell(void* stream, std::int64_t* ns) {
  std::unique_lock lock(mutex_);
  if (known_ == nullptr) {
    lock.unlock();  // who looks after late ranks settles meanwhile
    std::unique_ptr<Moment> first = clock_.mark(stream);
    first->finish();
    const std::int64_t now = core::trace_now();
    lock.lock();
    known_ = std::move(first);
    known_ns_ = now;
  }
  asked_[stream].push_back({clock_.mark(stream), ns});
}

void QueueTimes::settle() {
  const std::lock_guard lock(mutex_);
  for (auto& [stream, asked] : asked_) settle(asked);
}

void QueueTimes::settle(std::deque<Awaited>& of_stream) {
  while (!of_stream.empty() && of_stream.front().moment->has_come()) {
    Awaited& first = of_stream.front();
    *first.ns = known_ns_ + std::llround(1e6 * first.moment->milliseconds_since(*known_));
    if (*first.ns - known_ns_ > kOld) {
      known_ns_ = *first.ns;
      known_ = std::move(first.moment);
    }
    of_stream.pop_front();
  }
}

}  // namespace fm::device::cuda
