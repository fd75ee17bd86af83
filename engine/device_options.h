// What computes in a run.
#pragma once

#include <cstdint>

namespace fm::engine {

// kFake is this CPU behind the seam of a device (device/fake/fake_device.h).
enum class DeviceKind : std::uint8_t { kCpu, kFake };
struct DeviceOptions {
  DeviceKind kind = DeviceKind::kCpu;
  std::uint64_t seed = 1;  // of the times at which the fake one runs what is queued
};

}  // namespace fm::engine
