// Who is who: the processes of a world, for messages and addresses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fm::comm {

struct Member {
  int world_rank = 0;
  std::string host;
  std::int64_t pid = 0;
};

using Roster = std::vector<Member>;  // by world rank

Member this_process(int world_rank);
std::string name_of(const Member& member);  // "rank 1 (host node7, pid 4711)"

}  // namespace fm::comm
