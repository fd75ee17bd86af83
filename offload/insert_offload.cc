#include "offload/insert_offload.h"

namespace fm::offload {

pipeline::Program insert_offload(const pipeline::Program& program, core::Tier optimizer_tier) {
  if (optimizer_tier == core::Tier::kDevice) return program;
  pipeline::Program out;
  for (const pipeline::Instruction& at : program) {
    const bool update = at.op == pipeline::Op::kUpdate;
    if (update) out.push_back({pipeline::Op::kFetch, -1, at.unit});
    out.push_back(at);
    if (update) out.push_back({pipeline::Op::kStore, -1, at.unit});
  }
  return out;
}

}  // namespace fm::offload
