#include "cli/card_link.h"

#include <algorithm>

#include "device/cuda.h"

namespace fm::cli {

engine::TensorLink card_link(core::Device& device, const std::string& self, int limit_ms,
                             const std::function<void(const core::MachineError&)>& on_end) {
  const auto library = comm::open_nccl(device::nccl_functions());
  return
      [&device, self, limit_ms, on_end, library](std::unique_ptr<comm::Communicator> host,
                                                 core::Ledger& ledger, const comm::NcclUse& use) {
        comm::NcclPlace place{
            .library = library, .device = device, .ledger = ledger, .make_queue = [&device] {
              return device::new_queue(device);
            }};
        place.self = self;
        place.device_id = device::card_of(device).uuid;
        place.start_ms = std::min(place.start_ms, limit_ms);
        place.limit_ms = limit_ms;
        place.on_end = on_end;
        place.use_device = [&device] { device::use_card(device); };
        return comm::nccl(std::move(host), place, use);
      };
}

}  // namespace fm::cli
