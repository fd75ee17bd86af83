// What computes in a run.
#pragma once

#include <cstdint>

namespace fm::engine {

// kFake is this CPU behind the seam of a device (device/fake/fake_device.h), kCuda a GPU of
// NVIDIA's, kAuto a GPU where every rank has one, else the CPU: the start decides.
enum class DeviceKind : std::uint8_t { kCpu, kFake, kCuda, kAuto };
struct DeviceOptions {
  DeviceKind kind = DeviceKind::kCpu;
  std::uint64_t seed = 1;  // of the times at which the fake one runs what is queued
  int number = -1;      // of the GPU, of those that the process sees; -1: by its rank on the host
  bool shared = false;  // ranks may compute on the same GPU
};

}  // namespace fm::engine
