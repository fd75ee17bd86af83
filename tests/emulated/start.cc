#include "tests/emulated/start.h"

#include <cstring>
#include <vector>

#include "device/fake/fake_kernels.h"

namespace fm::emulated {

kernels::cuda::Workspace workspace(const core::Work& work) {
  if (work.queue != nullptr) {
    return dynamic_cast<const kernels::cuda::Stream&>(*work.queue).workspace();
  }
  struct alignas(256) Line {
    std::byte bytes[256];
  };
  thread_local std::vector<Line> memory(std::size_t{4} << 12);  // 4 MiB
  const std::size_t bytes = memory.size() * sizeof(Line);
  std::memset(memory.data(), device::kPoison, bytes);
  return {memory.data(), core::Bytes(static_cast<std::int64_t>(bytes))};
}

int multiprocessors(const core::Work& work) {
  if (work.queue == nullptr) return kMultiprocessors;
  return dynamic_cast<const kernels::cuda::Stream&>(*work.queue).multiprocessors();
}

}  // namespace fm::emulated
