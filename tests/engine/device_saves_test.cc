// What files hold on its way out of a device, and back into it.
#include <map>
#include <mutex>

#include "device/fake/fake_device.h"
#include "device/fake/queue_thread.h"
#include "trainer_case.h"

namespace fm::engine {
namespace {

namespace fs = std::filesystem;
using core::Bytes;
using device::FakeDevice;

// Memory that a device calls page-locked, and what large copies move there and past it.
class PageLocked : public core::MemorySource {
 public:
  void* allocate(Bytes bytes) override {
    void* const data = core::heap().allocate(bytes);
    const std::lock_guard lock(mutex_);
    given_[at(data)] = bytes;
    return data;
  }
  void release(void* data, Bytes bytes) noexcept override {
    {
      const std::lock_guard lock(mutex_);
      given_.erase(at(data));
    }
    core::heap().release(data, bytes);
  }
  std::unique_ptr<core::JoinedMemory> join(const core::JoinedParts& parts) override {
    return core::heap().join(parts);
  }

  void see_copy(const void* host, Bytes bytes) {
    constexpr Bytes kSmall(16 << 10);  // such as squares of blocks, which the norm reads
    if (bytes <= kSmall) return;
    const std::lock_guard lock(mutex_);
    const auto behind = given_.upper_bound(at(host));
    const bool inside =
        behind != given_.begin() &&
        at(host) + bytes.count() <= std::prev(behind)->first + std::prev(behind)->second.count();
    (inside ? reached : missed) += bytes;
  }

  Bytes reached, missed;

 private:
  static std::int64_t at(const void* data) { return reinterpret_cast<std::intptr_t>(data); }

  std::mutex mutex_;
  std::map<std::int64_t, Bytes> given_;  // by address
};

class WatchedQueue : public device::FakeQueue {
 public:
  WatchedQueue(const device::TwoViews& views, core::MemorySource& memory, std::uint64_t seed,
               PageLocked& page_locked)
      : FakeQueue(views, memory, std::make_unique<device::QueueThread>(seed)),
        page_locked_(page_locked) {}

  void copy_in(const void* host, void* device, Bytes bytes) override {
    page_locked_.see_copy(host, bytes);
    FakeQueue::copy_in(host, device, bytes);
  }
  void copy_out(const void* device, void* host, Bytes bytes) override {
    page_locked_.see_copy(host, bytes);
    FakeQueue::copy_out(device, host, bytes);
  }

 private:
  PageLocked& page_locked_;
};

class WatchedDevice : public FakeDevice {
 public:
  explicit WatchedDevice(PageLocked& page_locked)
      : FakeDevice([&](Name name, const device::TwoViews& views, core::MemorySource& memory) {
          const auto seed = static_cast<std::uint64_t>(name);
          return std::make_unique<WatchedQueue>(views, memory, seed, page_locked);
        }),
        page_locked_(page_locked) {}
  core::MemorySource& host_memory() override { return page_locked_; }

 private:
  PageLocked& page_locked_;
};

class DeviceSaves : public TrainerCase, public testing::WithParamInterface<core::DType> {
 protected:
  TrainOptions options(const std::string& output, DeviceKind kind) const {
    TrainOptions out = TrainerCase::options(output, 3);
    out.element = GetParam();
    out.device.kind = kind;
    out.shared_memory = false;
    out.save_steps = 1;
    return out;
  }
  static void run_watched(const TrainOptions& options) {
    PageLocked page_locked;
    {
      WatchedDevice device(page_locked);
      RunContext context;
      context.computes.device = &device;
      ASSERT_EQ(run(options, 1, context), 0);
    }
    EXPECT_GT(page_locked.reached, Bytes(0));
    EXPECT_EQ(page_locked.missed, Bytes(0));
  }
  // All tensors of all checkpoints and of the export.
  static void expect_equal_tensors(const TrainOptions& a, const TrainOptions& b) {
    int files = 0;
    for (const auto& entry : fs::recursive_directory_iterator(a.output_dir)) {
      if (entry.path().extension() != ".safetensors") continue;
      const fs::path name = fs::relative(entry.path(), a.output_dir);
      EXPECT_EQ(content(entry.path()), content(fs::path(b.output_dir) / name)) << name;
      ++files;
    }
    EXPECT_GT(files, 3 * 6);  // three checkpoints of more files than layers
  }
};
INSTANTIATE_TEST_SUITE_P(All, DeviceSaves, testing::Values(core::DType::kF32, core::DType::kBF16),
                         [](const auto& at) { return std::string(core::name_of(at.param)); });

// A GPU copies there at its link's rate, and elsewhere at a tenth of it. Saves beside steps, the
// last one, the export, and a start from a checkpoint.
TEST_P(DeviceSaves, CrossPageLockedMemoryAlone) {
  TrainOptions here = options("here", DeviceKind::kCpu);
  ASSERT_EQ(run(here), 0);
  TrainOptions there = options("there", DeviceKind::kFake);
  run_watched(there);
  expect_equal_tensors(here, there);
  here.train_steps = there.train_steps = 4;
  ASSERT_EQ(run(here), 0);
  run_watched(there);
  expect_equal_tensors(here, there);
}

}  // namespace
}  // namespace fm::engine
