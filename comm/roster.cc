#include "comm/roster.h"

#include <unistd.h>

#include <array>

#include "core/check.h"

namespace fm::comm {

Member this_process(int world_rank) {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host = {'?'};
  return {.world_rank = world_rank, .host = host.data(), .pid = getpid()};
}

std::string name_of(const Member& member) {
  return core::concat("rank ", member.world_rank, " (host ", member.host, ", pid ", member.pid,
                      ")");
}

}  // namespace fm::comm
