// What --device asks for: found, opened, and compared with what other ranks have.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/meet/world.h"
#include "core/check.h"
#include "core/device.h"
#include "device/cuda.h"
#include "engine/options.h"
#include "engine/shown/plan.h"
#include "engine/step/rank_device.h"

namespace fm::cli {

// Of a rank. `device` null: this CPU computes.
struct RunDevice {
  std::unique_ptr<core::Device> device;
  engine::TensorLink link;  // null: tensors are staged through the host
  std::string line;         // for the banner: "NVIDIA H100 80GB HBM3, driver for CUDA 13.0"; ""
  std::string libraries;    // that compute on a GPU; ""
  double peak_flops = 0.0;  // per second, of all ranks' data sheets; 0: not known
  std::vector<machine::MemoryLimit> memory;  // of the device, or of this host
};

// What ends this process where a thread of a link finds that it must.
using OnLinkEnd = std::function<void(const core::MachineError&)>;

// Collective. `device` in: as asked; out: never kAuto. Throws UserError (10) where this machine
// cannot, the same on every rank where ranks have the same GPU.
RunDevice open_run_device(engine::DeviceOptions& device, const comm::LaunchInfo& launch,
                          comm::Communicator& world, int limit_ms, const OnLinkEnd& on_end);

// Of a program without ranks; null: this CPU. Throws UserError (10) where this machine cannot.
std::unique_ptr<core::Device> open_device(const engine::DeviceOptions& options);

// For a plan: the GPU that --device_memory and --device_card tell of, else this machine's. Nothing
// is opened.
struct PlanDevice {
  core::Bytes memory;  // 0: not known
  std::string card;    // "": not known, as many kinds have so much memory
};
PlanDevice plan_device(core::Bytes asked_memory, const std::string& asked_card);

// What was found on this machine, and what is missing, with the cure: a line each for --report.
std::vector<std::string> device_report();

// Collective. The rank among those of its host: as the launcher says, else counted among the ranks
// of its host that nobody told theirs and that see the same GPUs.
comm::LaunchInfo counted_on_host(comm::LaunchInfo launch, const device::CudaSearch& search,
                                 comm::Communicator& world);

// What a rank of --device auto would compute on, and where it cannot, why.
struct FoundCard {
  std::string card;  // "node7 GPU-6c3e...": which of all hosts' cards
  std::string why;
};
// Throws MachineError (27) of a fault: a machine with GPUs does not train on its CPU unasked.
FoundCard found_card(const device::CudaSearch& search, const engine::DeviceOptions& options,
                     const comm::LaunchInfo& launch);

// Which ranks have one GPU, by the host and card of each rank ("": none); "": no two. For a
// message.
std::string shared_cards(const std::vector<std::string>& cards);

}  // namespace fm::cli
