#include "tests/emulated/emulated_device.h"

#include <dlfcn.h>

#include <atomic>

#include "core/check.h"
#include "device/cuda/card_attention.h"
#include "device/cuda/cublaslt.h"
#include "device/cuda/kernel_table.h"
#include "device/fake/fake_device.h"
#include "device/fake/queue_thread.h"
#include "kernels/cuda/stream.h"
#include "tests/cuda/fake_attention.h"
#include "tests/cuda/fake_cublaslt.h"
#include "tests/emulated/start.h"

namespace fm::emulated {
namespace {

constexpr core::Bytes kWorkspace = core::Bytes(std::int64_t{4} << 20);

device::FakeQueue& queue_of(void* stream) { return *static_cast<device::FakeQueue*>(stream); }

std::atomic<int> pieces_done = 0;

// For a group of heads of the engine's small models at a time.
std::unique_ptr<device::cuda::CardAttention> make_attention() {
  using namespace device::cuda;
  const FakeAttention::Place place{
      .push =
          [](void* stream, std::function<void()> task) {
            ++pieces_done;
            queue_of(stream).push(std::move(task));
          },
      .see = [](void* stream,
                const void* at) { return queue_of(stream).views().seen_by_kernels(at); }};
  constexpr core::Bytes kSpace((std::int64_t{2} << 20) + (100 << 10));
  return std::make_unique<CardAttention>(
      std::make_unique<FakeAttention>(place),
      AttentionOptions{.architecture = 90, .workspace = {nullptr, kSpace}});
}

class EmulatedQueue : public device::FakeQueue,
                      public kernels::cuda::Stream,
                      public device::cuda::Multiplies,
                      public device::cuda::Attends {
 public:
  EmulatedQueue(const device::TwoViews& views, core::MemorySource& memory, std::uint64_t seed,
                Attention attention)
      : FakeQueue(views, memory, std::make_unique<device::QueueThread>(seed)),
        attention_(attention == Attention::kLibrary ? make_attention() : nullptr) {}

  const core::QueueKernels& kernels() const override { return device::cuda::kernel_table(); }
  void* handle() const override {
    return const_cast<FakeQueue*>(static_cast<const FakeQueue*>(this));
  }
  kernels::cuda::Workspace workspace() const override {
    if (workspace_ == nullptr) {
      workspace_ = const_cast<EmulatedQueue*>(this)->memory().allocate(kWorkspace);
    }
    return {workspace_, kWorkspace};
  }
  int multiprocessors() const override { return kMultiprocessors; }
  void check_start(const char*) const override {}
  device::cuda::CardProducts& products() const override {
    if (products_ == nullptr) {
      products_ = std::make_unique<device::cuda::CardProducts>("an emulated GPU");
    }
    return *products_;
  }
  device::cuda::CardAttention* attention() const override { return attention_.get(); }

 private:
  std::unique_ptr<device::cuda::CardAttention> attention_;
  mutable void* workspace_ = nullptr;
  mutable std::unique_ptr<device::cuda::CardProducts> products_;
};

void run_on(void* stream, void (*task)(void*), void* data, void (*drop)(void*)) {
  const std::shared_ptr<void> held(data, drop);
  queue_of(stream).push([task, held] { task(held.get()); });
}

const void* translate(void* stream, const void* pointer) {
  return queue_of(stream).views().seen_by_kernels(pointer);
}

// A function of the fake library of products, which must be open.
template <class Function>
Function* of_library(const char* name) {
  void* const library = dlopen(FM_FAKE_LIBRARIES "/libcublasLt.so.13", RTLD_NOW | RTLD_NOLOAD);
  FM_CHECK(library != nullptr, "the library of products is not open");
  auto* const function = reinterpret_cast<Function*>(dlsym(library, name));
  FM_CHECK(function != nullptr, "FME_CUDA_LIBS names another library");
  return function;
}

// The library that Products opens is the fake one, which then asks this file.
void connect_library() {
  static const bool kConnected = [] {
    const device::cuda::CardProducts opens("an emulated GPU");
    of_library<decltype(fme_fake_run_on)>("fme_fake_run_on")(run_on);
    of_library<decltype(fme_fake_translate)>("fme_fake_translate")(translate);
    return true;
  }();
  FM_CHECK(kConnected, "");
}

long calls_of(const char* call) {
  connect_library();
  return of_library<decltype(fme_fake_calls)>("fme_fake_calls")(call);
}

}  // namespace

int attention_pieces_done() { return pieces_done; }

long products_done() { return calls_of("matmul"); }
long slow_products_done() { return calls_of("odd_strides"); }

std::unique_ptr<core::Device> make_device(std::uint64_t seed, Attention attention) {
  connect_library();
  return std::make_unique<device::FakeDevice>(
      [seed, attention](device::FakeDevice::Name name, const device::TwoViews& views,
                        core::MemorySource& memory) -> std::unique_ptr<device::FakeQueue> {
        const auto own = 3 * seed + static_cast<std::uint64_t>(name);
        return std::make_unique<EmulatedQueue>(views, memory, own, attention);
      });
}

std::shared_ptr<core::Queue> make_queue(core::Device& device, std::uint64_t seed) {
  const auto& first = dynamic_cast<EmulatedQueue&>(device.compute());
  return std::make_shared<EmulatedQueue>(first.views(), device.memory(), seed, Attention::kKernels);
}

}  // namespace fm::emulated
