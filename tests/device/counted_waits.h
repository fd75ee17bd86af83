// A fake device that counts how often the host waits for its queues. Work runs when it does.
#pragma once

#include <memory>

#include "device/fake/fake_device.h"
#include "device/fake/queue_runner.h"

namespace fm::device {

class CountedWaits : public FakeEvent {
 public:
  CountedWaits(QueueRunner& runner, int& waits) : FakeEvent(runner), waits_(waits) {}
  void finish() override {
    ++waits_;
    FakeEvent::finish();
  }

 private:
  int& waits_;
};

class CountedQueue : public FakeQueue {
 public:
  CountedQueue(const TwoViews& views, core::MemorySource& memory, int& waits)
      : FakeQueue(views, memory, std::make_unique<EarlyOrLate>(EarlyOrLate::When::kLate)),
        waits_(waits) {}
  core::EventPtr record() override { return put(std::make_shared<CountedWaits>(runner(), waits_)); }

 private:
  int& waits_;
};

inline std::unique_ptr<FakeDevice> device_that_counts(int& waits, core::Bytes memory) {
  return std::make_unique<FakeDevice>(
      [&waits](FakeDevice::Name, const TwoViews& views, core::MemorySource& source) {
        return std::make_unique<CountedQueue>(views, source, waits);
      },
      memory);
}

}  // namespace fm::device
