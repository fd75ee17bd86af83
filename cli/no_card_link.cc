// Builds without CUDA have no card to link.
#include "cli/card_link.h"

namespace fm::cli {

engine::TensorLink card_link(core::Device&, const std::string&, int,
                             const std::function<void(const core::MachineError&)>&) {
  FM_CHECK(false, "a build without CUDA opens no card");
}

}  // namespace fm::cli
