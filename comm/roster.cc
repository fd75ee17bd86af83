#include "comm/roster.h"

#include <unistd.h>

#include "core/check.h"
#include "core/process.h"

namespace fm::comm {

Member this_process(int world_rank) {
  return {.world_rank = world_rank, .host = core::host_name(), .pid = getpid()};
}

std::string name_of(const Member& member) {
  return core::concat("rank ", member.world_rank, " (host ", member.host, ", pid ", member.pid,
                      ")");
}

}  // namespace fm::comm
