#include "device/fake/fake_device.h"

#include <cstring>
#include <utility>

#include "core/check.h"
#include "device/fake/fake_kernels.h"
#include "device/fake/queue_thread.h"

namespace fm::device {
namespace {

class FakeHostCalls : public core::HostCalls {
 public:
  explicit FakeHostCalls(std::unique_ptr<FakeQueue> queue) : queue_(std::move(queue)) {}
  void call(std::function<void()> task) override { queue_->push(std::move(task)); }
  void wait(core::EventPtr event) override { queue_->wait(std::move(event)); }
  core::EventPtr record() override { return queue_->record(); }

 private:
  std::unique_ptr<FakeQueue> queue_;
};

}  // namespace

FakeDevice::FakeDevice(std::uint64_t seed, core::Bytes memory)
    : FakeDevice(
          [seed](Name name, const TwoViews& views, core::MemorySource& source) {
            const auto own = 3 * seed + static_cast<std::uint64_t>(name);
            return std::make_unique<FakeQueue>(views, source, std::make_unique<QueueThread>(own));
          },
          memory) {}

FakeDevice::FakeDevice(MakeQueue make, core::Bytes memory)
    : views_(memory),
      make_(std::move(make)),
      queues_{make_(Name::kCompute, views_, memory_), make_(Name::kIn, views_, memory_),
              make_(Name::kOut, views_, memory_)} {}

std::unique_ptr<FakeQueue> FakeDevice::make_next() {
  const int name = static_cast<int>(Name::kFirstNew) + new_queues_++;
  return make_(static_cast<Name>(name), views_, memory_);
}

std::unique_ptr<core::HostCalls> FakeDevice::new_host_calls() {
  return std::make_unique<FakeHostCalls>(make_next());
}

void* FakeDevice::Memory::allocate(core::Bytes bytes) {
  void* const data = device_.views_.allocate(bytes);
  if (data == nullptr) return nullptr;
  taken += bytes.count();
  void* const seen = device_.views_.seen_by_kernels(data);
  const auto size = static_cast<std::size_t>(bytes.count());
  std::memset(seen, kPoison, size);
  device_.queues_[0]->push([seen, size] { std::memset(seen, 0, size); });
  return data;
}

void FakeDevice::Memory::release(void* data, core::Bytes bytes) noexcept {
  for (const auto& queue : device_.queues_) {
    try {
      queue->finish();
    } catch (...) {  // who waits for the work that failed is told
    }
  }
  device_.views_.release(data);
  taken -= bytes.count();
}

std::unique_ptr<core::JoinedMemory> FakeDevice::Memory::join(const core::JoinedParts&) {
  FM_CHECK(false, "memory of the fake device has one address");
}

}  // namespace fm::device
