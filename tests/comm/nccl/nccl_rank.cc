#include "tests/comm/nccl/nccl_rank.h"

#include <dlfcn.h>

#include <numeric>
#include <stdexcept>
#include <vector>

#include "device/fake/fake_kernels.h"
#include "device/fake/queue_thread.h"

namespace fm::comm {
namespace {

constexpr core::Bytes kMemory(std::int64_t{256} << 20);

// The host reads the list of rows when it queues the kernel, as a CUDA device does.
void tree_add(const core::Work& work, std::span<const float* const> rows, std::int64_t count,
              float* out) {
  auto& queue = dynamic_cast<device::FakeQueue&>(*work.queue);
  std::vector<const float*> seen;
  for (const float* row : rows) seen.push_back(queue.views().seen_by_kernels(row));
  queue.push([seen = std::move(seen), count, out = queue.views().seen_by_kernels(out)] {
    kernels::tree_add(core::Work(), seen, count, out);
  });
}

const kernels::DeviceKernels& kernels_of_cards() {
  static const kernels::DeviceKernels kAll = [] {
    kernels::DeviceKernels table = device::fake_kernels();
    table.tree_add = tree_add;
    return table;
  }();
  return kAll;
}

class StreamQueue : public device::FakeQueue, public kernels::cuda::Stream {
 public:
  using FakeQueue::FakeQueue;
  const core::QueueKernels& kernels() const override { return kernels_of_cards(); }
  void* handle() const override {
    return const_cast<FakeQueue*>(static_cast<const FakeQueue*>(this));
  }
  kernels::cuda::Workspace workspace() const override { return {}; }
  int multiprocessors() const override { return 1; }
  void check_start(const char*) const override {}
};

std::unique_ptr<StreamQueue> stream(const device::TwoViews& views, core::MemorySource& memory,
                                    std::uint64_t seed) {
  return std::make_unique<StreamQueue>(views, memory, std::make_unique<device::QueueThread>(seed));
}

FakeNccl open_fake() {
  void* const library = dlopen(FM_FAKE_NCCL, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  FakeNccl fake;
  fake.find = [library](const char* name) { return dlsym(library, name); };
  const auto set = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr) throw std::runtime_error(name);
  };
  set(fake.device, "fme_fake_nccl_device");
  set(fake.fault, "fme_fake_nccl_fault");
  set(fake.forget, "fme_fake_nccl_forget");
  set(fake.alive, "fme_fake_nccl_alive");
  set(fake.late_pairs, "fme_fake_nccl_late_pairs");
  set(fake.crowded_starts, "fme_fake_nccl_crowded_starts");
  decltype(&fme_fake_nccl_run_on) run_on = nullptr;
  decltype(&fme_fake_nccl_see) see = nullptr;
  set(run_on, "fme_fake_nccl_run_on");
  set(see, "fme_fake_nccl_see");
  run_on([](void* queue, void (*task)(void*), void* data) {
    static_cast<device::FakeQueue*>(queue)->push([task, data] { task(data); });
  });
  see([](void* queue, const void* pointer) {
    const device::TwoViews& views = static_cast<device::FakeQueue*>(queue)->views();
    return const_cast<void*>(views.seen_by_kernels(pointer));
  });
  return fake;
}

}  // namespace

const FakeNccl& fake_nccl() {
  static const FakeNccl kFake = open_fake();
  return kFake;
}

FakeCard::FakeCard(int rank)
    : next_seed_(1000 * static_cast<std::uint64_t>(rank)),
      device_(std::make_unique<device::FakeDevice>(
          [this](device::FakeDevice::Name, const device::TwoViews& views,
                 core::MemorySource& memory) {
            views_ = &views;
            memory_ = &memory;
            return stream(views, memory, next_seed_++);
          },
          kMemory)) {}

std::shared_ptr<core::Queue> FakeCard::make_queue() {
  return stream(*views_, *memory_, next_seed_++);
}

std::unique_ptr<Communicator> same_ranks(Communicator& world) {
  std::vector<int> all(static_cast<std::size_t>(world.size()));
  std::iota(all.begin(), all.end(), 0);
  return world.split(all);
}

}  // namespace fm::comm
